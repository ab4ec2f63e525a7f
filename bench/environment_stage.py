"""The stage of bench/environments.py: an installation with a web process, a service to be called, and an explorer of its own."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TURNS = 8  # of an episode
AT_ONCE = {"instant": 256, "tiny": 32}  # episodes; more of them only make the two cores' first one late
WAIT_S = 120.0


def furnish(var: Path) -> str:
    """Project, policy, tasks, and a token for everything; its secret."""
    from apps.accounts.models import Membership, Project, Token, User
    from apps.policies.registering import register
    from apps.tasksets.importing import generate
    from workers.policies.tiny import build_sized

    build_sized(var / "policy", 3e6, "sort", context=4096)
    project = Project.objects.create(slug="bench", title="Bench")
    register(project, "policy", var / "policy", "built for a measurement", "Policy")
    generate(project, "sort", "sort", 500, 0)
    owner = User.objects.create_user("bench")
    Membership.objects.create(project=project, user=owner, role=Membership.Role.OWNER)
    return Token.issue(owner, "bench", ["env:write:*", "read"])[1]


@contextmanager
def web(port: int) -> Iterator[None]:
    """The web process as `manage.py up` starts it: two of them."""
    arguments = ["--port", str(port), "--workers", "2", "--lifespan", "off", "--no-access-log", "--log-level", "warning"]
    process = subprocess.Popen([sys.executable, "-m", "uvicorn", "rftweb.asgi:application", *arguments], cwd=ROOT)
    try:
        until("the web process serves", lambda: _serves(port))
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def _serves(port: int) -> bool:
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False


class Service(BaseHTTPRequestHandler):
    """A reset/step/close service that answers at once."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = asked.get("number", 0)
        step = {"observation": "Go on.", "reward": 0.5, "done": number >= TURNS} if self.path.endswith("/step") else {}
        answer = json.dumps(step or {"observation": "Begin."}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing: it would be a line for each request."""


def serve(pipe) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        pipe.send(f"http://127.0.0.1:{server.server_address[1]}/env")
        server.serve_forever()


@contextmanager
def service() -> Iterator[str]:
    here, there = multiprocessing.Pipe()
    process = spawned(serve, there)
    try:
        yield here.recv()
    finally:
        process.kill()


def spawned(target: Callable, *arguments: object) -> multiprocessing.Process:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


@contextmanager
def running_run(slug: str, environment: str) -> Iterator[object]:
    """A run that opens groups as long as anybody plays, and is stopped at the end."""
    from apps.accounts.models import Project
    from apps.runs.config import parse
    from apps.runs.models import Run

    plan = parse({
        "policy": "policy", "taskset": "sort", "steps": 100_000, "group_size": 4, "groups_per_step": 1000, "max_staleness": 8,
        "sampling": {"max_tokens": 3000}, "rewards": [], "engine": "transformers", "environment": {"name": environment},
    })  # fmt: skip
    run = Run.create(project=Project.objects.get(), slug=slug, title=slug, plan=plan)
    run.start()
    began = time.monotonic()
    try:
        yield run
    finally:
        run.refresh_from_db()
        run.stop()
        print(f"{slug}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def until(what: str, look: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while not look():
        if time.monotonic() > ends:
            raise SystemExit(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(0.02)


def explore(policy: str, pipe) -> None:
    """An explorer's process until something comes through the pipe; then what the bare engine takes for its first turns."""
    import django

    django.setup()
    from apps.runs.models import Worker
    from apps.streaming import bells
    from bench.instant_engine import InstantEngine
    from workers.engines.transformers_loop import TransformersEngine
    from workers.explorer import seat, station
    from workers.slices import IDLE_SECONDS

    asked = Asked()
    engine = InstantEngine if policy == "instant" else lambda: asked.listened(TransformersEngine(1.0, 0))
    seat.build = lambda *_, **__: (engine(), "for a measurement")
    station.ROLLOUTS_IN_FLIGHT = AT_ONCE[policy]
    explorer = station.Explorer(Worker.objects.create(key=f"bench-{policy}", role="explorer", host="bench", pid=os.getpid()))
    while not pipe.poll():
        if not explorer.serve():
            bells.wait("explore", IDLE_SECONDS)
    explorer.stop()
    pipe.recv()
    pipe.send(asked.alone(TransformersEngine(1.0, 0)) if policy == "tiny" else [])


class Asked:
    """What an engine was asked in its first turns and how many tokens it said, to be asked again of one that does nothing else."""

    MOST = 200  # turns; one client is the first to play

    def __init__(self) -> None:
        self.prompts: dict[str, tuple[int, ...]] = {}
        self.tokens: Counter[str] = Counter()

    def listened(self, engine):
        submit, drain = engine.submit, engine.drain

        def listening_submit(requests) -> None:
            self.prompts |= {request.id: request.prompt_ids for request in requests[: self.MOST - len(self.prompts)]}
            submit(requests)

        def listening_drain(timeout: float):
            deltas = drain(timeout)
            for delta in deltas:
                self.tokens[delta.request_id] += len(delta.token_ids)
            return deltas

        engine.submit, engine.drain = listening_submit, listening_drain
        return engine

    def alone(self, engine) -> list[float]:
        """Milliseconds of each of these turns, one after the other, of the same lengths."""
        from apps.policies.manifest import verify
        from apps.policies.models import Policy
        from workers.engines.interface import Request, Sampling

        folder, took = Path(Policy.objects.get().folder), []
        engine.start(folder, 0, verify(folder).probe)
        for name, prompt_ids in self.prompts.items():
            began, ended = time.perf_counter(), False
            engine.submit([Request(name, prompt_ids, Sampling(max(1, self.tokens[name])))])
            while not ended:
                ended = any(delta.stop_reason for delta in engine.drain(1.0))
            took.append(1000 * (time.perf_counter() - began))
        engine.stop()
        return took
