"""A separate Valkey that tests stop and start, and a web server with sockets."""

import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
import redis
import uvicorn
from django.conf import settings
from django.test import Client
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from apps.accounts.models import User
from rftweb.embedded.binaries import redis_binary
from rftweb.server import APPLICATION, PROTOCOL, SOCKET_LIMITS
from tests.ports import kept_port


class OwnRedis:
    """A server on a separate port. It stores nothing on disk: a restart loses all data."""

    def __init__(self) -> None:
        self.keeper, self.port = kept_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.folder = tempfile.mkdtemp(prefix="rftweb-valkey-")
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [
            str(redis_binary()),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            self.folder,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # The client retries every 50 ms for half a minute.
        redis.Redis.from_url(self.url, retry=Retry(ConstantBackoff(0.05), 600)).ping()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def own_redis() -> Iterator[OwnRedis]:
    server = OwnRedis()
    server.start()
    yield server
    server.kill()
    server.keeper.close()
    shutil.rmtree(server.folder)


@pytest.fixture
def client() -> redis.Redis:
    """Return a client of the suite's Redis, to read what was written."""
    return redis.Redis.from_url(settings.REDIS_URL)


@pytest.fixture
def fresh_id() -> int:
    """Return a rollout or topic id that no other test has used."""
    return uuid.uuid4().int % 2**40


@pytest.fixture
def serve(settings, monkeypatch, transactional_db) -> Iterator[Callable[..., str]]:
    """Serve the ASGI application with uvicorn on a free port; returns its ws:// address.

    It can use a separate Redis.
    """
    # The server uses its own threads; connections kept open there would outlive the test
    # database.
    monkeypatch.setitem(settings.DATABASES["default"], "CONN_MAX_AGE", 0)
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(redis_url: str | None = None) -> str:
        if redis_url:
            settings.REDIS_URL = redis_url
            hosts = {"hosts": [{"address": redis_url, "socket_timeout": None}], "prefix": "rftweb"}
            settings.CHANNEL_LAYERS = {
                "default": {
                    "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
                    "CONFIG": hosts,
                }
            }
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            APPLICATION, http=PROTOCOL, log_level="warning", lifespan="off", **SOCKET_LIMITS
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        servers.append((server, thread))
        return f"ws://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for server, thread in servers:
        server.force_exit = server.should_exit = True
        thread.join()


def signed_in(user: User) -> dict[str, str]:
    """Return the headers of a browser in which this user has signed in."""
    client = Client()
    client.force_login(user)
    return {
        "Cookie": (
            f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        )
    }


@pytest.fixture
def bobs(transactional_db, bob: User) -> dict[str, str]:
    return signed_in(bob)


@pytest.fixture
def admins(transactional_db, admin: User) -> dict[str, str]:
    return signed_in(admin)


@pytest.fixture
def alices(transactional_db, alice: User) -> dict[str, str]:
    return signed_in(alice)


@pytest.fixture
def carols(transactional_db, carol: User) -> dict[str, str]:
    return signed_in(carol)
