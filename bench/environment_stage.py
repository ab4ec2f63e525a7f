"""Setup of bench/environments.py: an installation with web server, HTTP service, and explorer."""

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
TURNS = 8  # turns per episode
AT_ONCE = {
    "instant": 256,
    "tiny": 32,
}  # concurrent episodes; more of them only delay the first one on two cores
WAIT_S = 120.0


def create_environment_stage(var: Path) -> str:
    """Create project, policy, tasks, and a token with all scopes; return its secret."""
    from apps.accounts.models import Membership, Project, Token, User
    from apps.policies.registering import register_policy
    from apps.tasksets.importing import generate
    from workers.policies.tiny import build_sized

    build_sized(var / "policy", 3e6, "sort", context=4096)
    project = Project.objects.create(slug="bench", title="Bench")
    register_policy(project, "policy", var / "policy", "built for a measurement", "Policy")
    generate(project, "sort", "sort", 500, 0)
    owner = User.objects.create_user("bench")
    Membership.objects.create(project=project, user=owner, role=Membership.Role.OWNER)
    return Token.issue(owner, "bench", ["env:write:*", "read"])[1]


@contextmanager
def run_web_processes(port: int) -> Iterator[None]:
    """Run two web processes, as `manage.py up` starts them."""
    arguments = [
        "--port",
        str(port),
        "--workers",
        "2",
        "--lifespan",
        "off",
        "--no-access-log",
        "--log-level",
        "warning",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "rftweb.asgi:application", *arguments], cwd=ROOT
    )
    try:
        wait_for_state("the web process serves", lambda: _serves(port))
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
    """An HTTP environment with reset/step/close that answers at once."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = request.get("number", 0)
        step = (
            {"observation": "Go on.", "reward": 0.5, "done": number >= TURNS}
            if self.path.endswith("/step")
            else {}
        )
        answer = json.dumps(step or {"observation": "Begin."}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing: it would be a line for each request."""


def serve_explorer(pipe) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        pipe.send(f"http://127.0.0.1:{server.server_address[1]}/env")
        server.serve_forever()


@contextmanager
def service() -> Iterator[str]:
    parent_end, child_end = multiprocessing.Pipe()
    process = spawned(serve_explorer, child_end)
    try:
        yield parent_end.recv()
    finally:
        process.kill()


def spawned(target: Callable, *arguments: object) -> multiprocessing.Process:
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    process.start()
    return process


@contextmanager
def running_run(slug: str, environment: str) -> Iterator[object]:
    """Yield a run that opens groups without limit; stop it at the end."""
    from apps.accounts.models import Project
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    plan = parse_config(
        {
            "policy": "policy",
            "taskset": "sort",
            "steps": 100_000,
            "group_size": 4,
            "groups_per_step": 1000,
            "max_staleness": 8,
            "sampling": {"max_tokens": 3000},
            "rewards": [],
            "engine": "transformers",
            "environment": {"name": environment},
        }
    )
    run = Run.create(project=Project.objects.get(), slug=slug, title=slug, plan=plan)
    run.start()
    began = time.monotonic()
    try:
        yield run
    finally:
        run.refresh_from_db()
        run.stop()
        print(f"{slug}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def wait_for_state(what: str, look: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while not look():
        if time.monotonic() > ends:
            raise SystemExit(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(0.02)


def explore_until_told(policy: str, pipe) -> None:
    """Run an explorer until something arrives through the pipe; then time its first turns alone."""
    import django

    django.setup()
    from apps.runs.models import Worker
    from apps.streaming import worker_notifications
    from bench.instant_engine import InstantEngine
    from workers.engines.transformers_loop import TransformersEngine
    from workers.explorer import loop, session
    from workers.time_slices import IDLE_SECONDS

    recorder = TurnRecorder()
    engine = (
        InstantEngine
        if policy == "instant"
        else lambda: recorder.listened(TransformersEngine(1.0, 0))
    )
    session.build_engine = lambda *_, **__: (engine(), "for a measurement")
    loop.ROLLOUTS_IN_FLIGHT = AT_ONCE[policy]
    explorer = loop.ExplorerLoop(
        Worker.objects.create(key=f"bench-{policy}", role="explorer", host="bench", pid=os.getpid())
    )
    while not pipe.poll():
        if not explorer.serve():
            worker_notifications.wait("explore", IDLE_SECONDS)
    explorer.stop()
    pipe.recv()
    pipe.send(recorder.alone(TransformersEngine(1.0, 0)) if policy == "tiny" else [])


class TurnRecorder:
    """A recorder of an engine's first turns, to repeat them on an idle engine.

    It stores the prompts and the numbers of sampled tokens.
    """

    MAX_TURNS = 200  # turns; one client is the first to play

    def __init__(self) -> None:
        self.prompts: dict[str, tuple[int, ...]] = {}
        self.tokens: Counter[str] = Counter()

    def listened(self, engine):
        submit = engine.submit
        drain = engine.drain

        def listening_submit(requests) -> None:
            self.prompts |= {
                request.id: request.prompt_ids
                for request in requests[: self.MAX_TURNS - len(self.prompts)]
            }
            submit(requests)

        def listening_drain(timeout: float):
            deltas = drain(timeout)
            for delta in deltas:
                self.tokens[delta.request_id] += len(delta.token_ids)
            return deltas

        engine.submit = listening_submit
        engine.drain = listening_drain
        return engine

    def alone(self, engine) -> list[float]:
        """Return the milliseconds of each recorded turn, repeated one after the other."""
        from apps.policies.manifest import verify_folder
        from apps.policies.models import Policy
        from workers.engines.interface import Request, Sampling

        folder = Path(Policy.objects.get().folder)
        took = []
        engine.start(folder, 0, verify_folder(folder).probe)
        for name, prompt_ids in self.prompts.items():
            began = time.perf_counter()
            ended = False
            engine.submit([Request(name, prompt_ids, Sampling(max(1, self.tokens[name])))])
            while not ended:
                ended = any(delta.stop_reason for delta in engine.drain(1.0))
            took.append(1000 * (time.perf_counter() - began))
        engine.stop()
        return took
