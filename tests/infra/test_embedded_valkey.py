"""The embedded Valkey server, used by redis-py, Celery and Channels over its UNIX socket."""

import asyncio
import os
import signal
import stat
import subprocess

import pytest
import redis
from celery import Celery
from channels_redis.pubsub import RedisPubSubChannelLayer

from rftweb.embedded import ValkeyServer
from rftweb.settings import broker_url


@pytest.fixture
def server(var):
    server = ValkeyServer(var)
    server.ensure()
    process = started(server)
    yield server
    server.stop(process)


def started(server: ValkeyServer) -> subprocess.Popen:
    process = server.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server.wait_ready(process)
    return process


def test_server_writes_a_log_file_evicts_nothing_and_opens_no_port(server):
    client = redis.Redis.from_url(server.url, decode_responses=True)
    wanted = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "port": "0",
    }
    assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_socket_and_configuration_are_closed_to_other_users(server):
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE((server.data / "valkey.conf").stat().st_mode) == 0o600


def test_password_is_required_and_absent_from_the_command_line(server):
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(unix_socket_path=str(server.socket)).ping()
    password = (server.var / "secrets" / "valkey_password").read_text()
    assert not any(password in word for word in server.command()[0])


def test_celery_sends_and_fetches_through_its_form_of_the_address(server):
    app = Celery(broker=broker_url(server.url))
    with app.connection_for_write() as connection, connection.SimpleQueue("bell") as queue:
        queue.put({"run": 1}, serializer="json")
        message = queue.get(timeout=60)
        message.ack()
    assert message.payload == {"run": 1}


async def test_channels_delivers_to_a_group_through_the_same_address(server):
    layer = RedisPubSubChannelLayer(hosts=[{"address": server.url, "socket_timeout": None}])
    channel = await layer.new_channel()
    await layer.group_add("run-1", channel)
    await layer.group_send("run-1", {"type": "event", "number": 7})
    message = await asyncio.wait_for(layer.receive(channel), 60)
    await layer.flush()
    assert message["number"] == 7


def test_acknowledged_writes_survive_sigkill(var):
    server = ValkeyServer(var)
    server.ensure()
    process = started(server)
    redis.Redis.from_url(server.url).set("bell", "rung")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process = started(server)
    assert redis.Redis.from_url(server.url).get("bell") == b"rung"
    server.stop(process)


def test_second_start_on_the_same_socket_is_refused(server):
    with pytest.raises(RuntimeError, match="already running"):
        server.start()
