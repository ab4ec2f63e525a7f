"""Real services on the loopback interface, which this installation allows to be called."""

from collections.abc import Iterator

import pytest

from apps.environments.models import Environment
from tests.guessing_service import Service, serving


@pytest.fixture
def service(settings) -> Iterator[Service]:
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    with serving() as server:
        yield server


@pytest.fixture
def called(service) -> Environment:
    """Return the environment of this service; it is not stored."""
    return Environment(name="called", kind=Environment.Kind.HTTP, address=service.address, turn_s=5)
