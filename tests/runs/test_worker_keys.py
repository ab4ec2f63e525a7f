"""A process is registered under a key of its own, whatever the name of its machine."""

import socket

import pytest

from apps.runs.models import Worker
from apps.runs.worker_registry import enter

pytestmark = pytest.mark.django_db
MAX_KEY_LENGTH = Worker._meta.get_field("key").max_length


@pytest.fixture
def on_host(monkeypatch):
    """Return a function that registers an explorer as on a machine of this name."""

    def entered(name: str) -> Worker:
        monkeypatch.setattr(socket, "gethostname", lambda: name)
        return enter("explorer")

    return entered


def test_key_names_role_and_machine(on_host):
    assert on_host("lab").key.startswith("explorer@lab:")


def test_machines_with_long_names_that_begin_alike_get_different_keys(on_host):
    one = on_host("a" * 63 + "1")
    other = on_host("a" * 63 + "2")
    assert one.pk != other.pk
    assert {len(one.key), len(other.key)} == {MAX_KEY_LENGTH}
    assert one.host == "a" * 63 + "1"
