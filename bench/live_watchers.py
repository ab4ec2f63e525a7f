"""Delay of tokens from the explorer to watching browsers, and losses on the way.

    python bench/live_watchers.py [--watchers 200] [--rollouts 16] [--tokens-per-s 30] [--seconds
    15] [--port 8441]

The explorer's own ChunkWriter, in a process of its own, streams several rollouts at once, each
token with the time it was made; a real web process sends them to many signed-in sockets, each of
which checks that every token came, once and in order. The alternative, measured in the same run, is
the obvious one: each chunk by `group_send` through the channel layer to a consumer that passes it
on. Writer, Redis, web process and watchers share the machine; both ways coalesce writes for 50 ms.

The last line on standard output is JSON: `p50_ms`, `p99_ms`, `lost`, `doubled`, `web_cpu` (cores)
of the hub and, with the prefix `group_send_`, of the alternative; `p99_ratio` and `cpu_ratio` are
the alternative's over the hub's.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

PEOPLE = 20  # accounts that the watchers share: a person has at most 16 sockets
FIRST_ROLLOUT = 1_000_000
COALESCE_S = 0.05
WAIT_S = 60.0
SLOWEST_FRAME_S = 20.0
CLOCK = time.CLOCK_MONOTONIC  # one clock for all processes of the machine


def main() -> None:
    options = parse_options()
    with installation(RFTWEB_DEBUG="0"):
        topic, cookies = create_watched_run()
        rows = {
            way: measure_watchers(way, options, topic, cookies) for way in ("hub", "group_send")
        }
    print_watcher_table(options, rows)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument(
        "--rollouts", type=int, default=16, help=("number of rollouts that stream at once")
    )
    parser.add_argument(
        "--tokens-per-s", type=float, default=30.0, help=("tokens per second of each rollout")
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--port", type=int, default=8441)
    return parser.parse_args()


def create_watched_run() -> tuple[int, list[str]]:
    """Create a running run with owners; return its topic, and a session cookie of each."""
    from django.conf import settings
    from django.test import Client

    from apps.accounts.models import Membership, User
    from tests.seeding import seed_run

    run = seed_run("watched", steps=0, tasks=4, password=None)
    cookies = []
    for n in range(PEOPLE):
        user = User.objects.create_user(f"watcher-{n}")
        Membership.objects.create(project=run.project, user=user, role=Membership.Role.RESEARCHER)
        client = Client()
        client.force_login(user)
        cookies.append(
            f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        )
    return run.topic_id, cookies


# -- the two ways


def application():
    """Return the alternative's ASGI application: `uvicorn --factory live_watchers:application`."""
    import django

    django.setup()
    from channels.auth import AuthMiddlewareStack
    from channels.generic.websocket import AsyncWebsocketConsumer
    from channels.routing import ProtocolTypeRouter, URLRouter
    from django.core.asgi import get_asgi_application
    from django.urls import path

    class Grouped(AsyncWebsocketConsumer):
        async def connect(self) -> None:
            await self.channel_layer.group_add("watched", self.channel_name)
            await self.accept()
            await self.send(text_data='{"status":"live"}')

        async def chunk(self, event: dict) -> None:
            await self.send(text_data=event["text"])

    sockets = AuthMiddlewareStack(URLRouter([path("ws/live/", Grouped.as_asgi())]))
    return ProtocolTypeRouter({"http": get_asgi_application(), "websocket": sockets})


def stream_rollouts(
    way: str, topic: int, rollouts: int, tokens_per_s: float, seconds: float
) -> None:
    """Stream the rollouts as an explorer does: tokens when they are due, flushed at every tick."""
    import django

    django.setup()
    from apps.streaming.chunks import ChunkWriter

    writer = ChunkWriter(topic)
    if way == "group_send":
        writer._send = lambda: send_to_group(writer)
    numbers = range(FIRST_ROLLOUT, FIRST_ROLLOUT + rollouts)
    for rollout in numbers:
        writer.started(rollout, 1, "why?", 0)
    writer.flush(at_once=True)
    began = time.monotonic()
    sent_tokens = 0
    total = int(tokens_per_s * seconds)
    while sent_tokens < total:
        due_tokens = min(total, int((time.monotonic() - began) * tokens_per_s))
        for offset in range(sent_tokens, due_tokens):
            for rollout in numbers:
                writer.add(rollout, offset, f"{time.clock_gettime(CLOCK):.6f} ", (-0.5,), 0)
        sent_tokens = due_tokens
        writer.flush()
        time.sleep(0.005)
    for rollout in numbers:
        writer.end(rollout, "stop")
    while writer.pending:
        writer.flush()
        time.sleep(0.005)


def send_to_group(writer) -> None:
    """Send pending chunks with one group message each."""
    from asgiref.sync import async_to_sync
    from channels.layers import get_channel_layer

    layer = get_channel_layer()

    async def send() -> None:
        for chunk in writer.pending:
            text = json.dumps({"chunks": [chunk]}, ensure_ascii=True, separators=(",", ":"))
            await layer.group_send("watched", {"type": "chunk", "text": text})

    async_to_sync(send)()


@contextmanager
def serve_web(way: str, port: int) -> Iterator[subprocess.Popen]:
    target = (
        ["rftweb.asgi:application"]
        if way == "hub"
        else ["--factory", "live_watchers:application", "--app-dir", str(ROOT / "bench")]
    )
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        *target,
        "--port",
        str(port),
        "--lifespan",
        "off",
        "--no-access-log",
        "--log-level",
        "warning",
    ]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def process_cpu_seconds(pid: int) -> float:
    """Return the user and system time of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- the watchers


@dataclass
class Watched:
    """Frames that one socket received, with their times; evaluated at the end."""

    frames: list[tuple[float, str]] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0

    def look(self, rollouts: int, tokens: int) -> None:
        at = dict.fromkeys(range(FIRST_ROLLOUT, FIRST_ROLLOUT + rollouts), 0)
        for received_at, text in self.frames:
            for chunk in json.loads(text).get("chunks", []):
                if chunk["t"] == "text" and chunk["r"] in at:
                    self._take(received_at, chunk, at)
        self.lost += sum(tokens - place for place in at.values())

    def _take(self, received_at: float, chunk: dict, at: dict[int, int]) -> None:
        place = at[chunk["r"]]
        self.lost += max(0, chunk["o"] - place)
        self.doubled += max(0, place - chunk["o"])
        at[chunk["r"]] = max(place, chunk["o"] + chunk["n"])
        self.delays += [(received_at - float(sent_at)) * 1000 for sent_at in chunk["x"].split()]


async def watch_socket(
    watched: Watched, address: str, cookie: str, rollouts: int, ready: asyncio.Event
) -> None:
    from websockets.asyncio.client import connect

    headers = {"Cookie": cookie}
    origin = address.partition("/ws/")[0].replace("ws:", "http:")
    ended = 0
    async with connect(
        address, origin=origin, additional_headers=headers, proxy=None, max_queue=None
    ) as socket:
        async for text in socket:
            watched.frames.append((time.clock_gettime(CLOCK), text))
            ready.set()
            ended += text.count('"t":"end"')
            if ended >= rollouts:
                return


async def wait_for_socket(address: str, cookie: str) -> None:
    """Wait until the web process accepts sockets."""
    ready = asyncio.Event()
    until = time.monotonic() + WAIT_S
    while not ready.is_set():
        task = asyncio.create_task(watch_socket(Watched(), address, cookie, 1, ready))
        await asyncio.wait(
            [task, asyncio.create_task(ready.wait())],
            return_when=asyncio.FIRST_COMPLETED,
            timeout=5,
        )
        task.cancel()
        if time.monotonic() > until:
            raise SystemExit("the web process does not serve")
        await asyncio.sleep(0.2)


async def everybody(
    way: str, options: argparse.Namespace, topic: int, cookies: list[str], pid: int
) -> tuple[list[Watched], float]:
    """Run all watchers until after the last token; return them and the web process's load.

    The load is in cores.
    """
    address = f"ws://127.0.0.1:{options.port}/ws/live/?topic={topic}"
    await wait_for_socket(address, cookies[0])
    all_watched = [Watched() for _ in range(options.watchers)]
    readies = [asyncio.Event() for _ in range(options.watchers)]
    tasks = [
        asyncio.create_task(
            watch_socket(watched, address, cookies[n % len(cookies)], options.rollouts, readies[n])
        )
        for n, watched in enumerate(all_watched)
    ]
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(ready.wait() for ready in readies))
    arguments = (way, topic, options.rollouts, options.tokens_per_s, options.seconds)
    writer = multiprocessing.get_context("spawn").Process(target=stream_rollouts, args=arguments)
    before = process_cpu_seconds(pid)
    began = time.monotonic()
    writer.start()
    # Tokens that do not arrive in time are counted as lost.
    await asyncio.wait(tasks, timeout=options.seconds + SLOWEST_FRAME_S)
    cores = (process_cpu_seconds(pid) - before) / (time.monotonic() - began)
    for task in tasks:
        task.cancel()
    writer.join()
    if writer.exitcode:
        raise SystemExit("the writer failed")
    return all_watched, cores


def measure_watchers(
    way: str, options: argparse.Namespace, topic: int, cookies: list[str]
) -> dict[str, float]:
    import redis

    redis.Redis.from_url(os.environ["REDIS_URL"]).flushall()
    with serve_web(way, options.port) as process:
        all_watched, cores = asyncio.run(everybody(way, options, topic, cookies, process.pid))
    tokens = int(options.tokens_per_s * options.seconds)
    for watched in all_watched:
        watched.look(options.rollouts, tokens)
    delays = sorted(delay for watched in all_watched for delay in watched.delays)
    if not delays:
        raise SystemExit(f"{way}: nobody heard anything")
    return {
        "p50_ms": delays[len(delays) // 2],
        "p99_ms": delays[int(len(delays) * 0.99)],
        "worst_ms": delays[-1],
        "tokens": len(delays),
        "frames": sum(len(watched.frames) for watched in all_watched),
        "lost": sum(watched.lost for watched in all_watched),
        "doubled": sum(watched.doubled for watched in all_watched),
        "web_cpu": cores,
    }


def print_watcher_table(options: argparse.Namespace, rows: dict[str, dict[str, float]]) -> None:
    hub = rows["hub"]
    group_send = rows["group_send"]
    print(
        f"{options.watchers} watchers, {options.rollouts} rollouts at {options.tokens_per_s:g}"
        f" tokens/s, {options.seconds:g} s"
    )
    names = ("p50_ms", "p99_ms", "worst_ms", "tokens", "frames", "lost", "doubled", "web_cpu")
    print(f"{'':>12} " + " ".join(f"{name:>12}" for name in names))
    for way, row in rows.items():
        print(
            f"{way:>12} "
            + " ".join(
                f"{row[name]:>12,.2f}" if name == "web_cpu" else f"{row[name]:>12,.0f}"
                for name in names
            )
        )
    figures = {name: round(value, 3) for name, value in hub.items()}
    figures |= {f"group_send_{name}": round(value, 3) for name, value in group_send.items()}
    ratios = {
        "p99_ratio": group_send["p99_ms"] / hub["p99_ms"],
        "cpu_ratio": group_send["web_cpu"] / max(hub["web_cpu"], 1e-9),
    }
    print(json.dumps(figures | {name: round(value, 2) for name, value in ratios.items()}))


if __name__ == "__main__":
    main()
