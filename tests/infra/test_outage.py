"""A page that needs the database while it is away."""

import pytest
from django.db import OperationalError
from django.urls import reverse


@pytest.fixture
def away(monkeypatch):
    def refuse(*_, **__):
        raise OperationalError("the connection is lost")

    monkeypatch.setattr("apps.dashboard.views.run_list.page_of", refuse)


def test_says_so_and_when_to_come_back(client, alice, away):
    client.force_login(alice)
    answer = client.get(reverse("runs"))
    assert answer.status_code == 503 and answer["Retry-After"] == "5"
    assert "The database did not answer" in answer.content.decode()


def test_another_error_stays_a_fault(client, alice, monkeypatch):
    client.force_login(alice)
    client.raise_request_exception = False
    monkeypatch.setattr("apps.dashboard.views.run_list.page_of", lambda *_, **__: 1 / 0)
    answer = client.get(reverse("runs"))
    assert answer.status_code == 500 and "A fault of ours" in answer.content.decode()
