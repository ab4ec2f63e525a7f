"""Episodes and turns a second through each way in, and what a turn of ours costs over the bare engine.

    python bench/environments.py [--seconds 8] [--clients 8] [--port 8361]

Everything is real: embedded services, the web process, an explorer in a process of its own, tokens, rows. Only the policy is, in
the first of two rounds, one that answers at once (bench/instant_engine.py, which exists for this measurement alone); in the second
it is an untrained one of 3 million parameters. Environments that call us and agents are played by one client and by `--clients`;
those that we call, a class of the library and an HTTP service, are played by the explorer.

`overhead_ms` is what one client waits for a turn (observation posted until action read) less what the engine alone takes for the
same tokens after the same tokens, median less median, in the same run. Then rewards: results one by one, and batches of up to
1,000, each with a tenth sent twice; `counted_twice` is read from the table. The last line on standard output is JSON.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
POLICIES = ("instant", "tiny")
TURNS = 8  # of an episode
HELD = 200  # episodes that stand at their last move when rewards are measured
BATCH = 1_000
WAIT_S = 120.0
AIMS = {"overhead_ms": "<= 15", "results_per_s": ">= 50", "rewards_per_s": ">= 1000", "counted_twice": "0"}


def main() -> None:
    options = parse_options()
    from rftweb.embedded import running

    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as var, running(Path(var)) as (database, redis):
        os.environ.update(
            DATABASE_URL=database, REDIS_URL=redis, RFTWEB_VAR=var, DJANGO_SETTINGS_MODULE="rftweb.settings",
            RFTWEB_LOG_LEVEL="WARNING", RFTWEB_DEBUG="1", RFTWEB_REQUESTS_PER_SECOND="1000000",
        )  # fmt: skip
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        call_command("createcachetable", verbosity=0)
        secret = furnish(Path(var))
        with web(options.port), service() as address:
            rows = {policy: measured(policy, options, secret, address) for policy in POLICIES}
    report(rows)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--port", type=int, default=8361)
    return parser.parse_args()


# -- the installation -------------------------------------------------------------------------------------------------


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
        return Client(port, "").ask("GET", "/healthz")[0] == 200
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


# -- the explorer -----------------------------------------------------------------------------------------------------


def explore(policy: str, pipe) -> None:
    """An explorer's process until something comes through the pipe; then what the bare engine takes for its first turns."""
    import django

    django.setup()
    from apps.runs.models import Worker
    from apps.streaming import bells
    from bench.instant_engine import InstantEngine
    from workers.engines.transformers_loop import TransformersEngine
    from workers.explorer import seat
    from workers.explorer.station import Explorer
    from workers.slices import IDLE_SECONDS

    asked = Asked()
    engine = InstantEngine if policy == "instant" else lambda: asked.listened(TransformersEngine(1.0, 0))
    seat.build = lambda *_, **__: (engine(), "for a measurement")
    explorer = Explorer(Worker.objects.create(key=f"bench-{policy}", role="explorer", host="bench", pid=os.getpid()))
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


# -- clients ----------------------------------------------------------------------------------------------------------


class Client:
    """One connection that stays. `took`: milliseconds of each turn; `turns`, `episodes`: played."""

    def __init__(self, port: int, secret: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
        self.headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.took: list[float] = []
        self.episodes = 0
        self.error: Exception | None = None

    def ask(self, method: str, path: str, document: dict | None = None, **headers: str) -> tuple[int, dict]:
        body = None if document is None else json.dumps(document)
        self.connection.request(method, path, body, {**self.headers, **headers})
        answer = self.connection.getresponse()
        said = answer.read()
        is_json = answer.headers.get_content_type().endswith("json")
        return answer.status, json.loads(said) if is_json else {}

    def must(self, method: str, path: str, document: dict, **headers: str) -> dict:
        """Raises RuntimeError for any answer but 2xx; one that says 429 is asked again until it has room."""
        until_s = time.monotonic() + WAIT_S
        while True:
            status, said = self.ask(method, path, document, **headers)
            if status < 300:
                return said
            if status != 429 or time.monotonic() > until_s:
                raise RuntimeError(f"{path} answered {status}: {said}")
            time.sleep(0.005)

    def timed(self, *request: object, **headers: str) -> dict:
        began = time.perf_counter()
        said = self.must(*request, **headers)
        self.took.append(1000 * (time.perf_counter() - began))
        return said


def pushes(client: Client, name: str, ends: Callable[[], bool]) -> None:
    """An environment that calls us."""
    while not ends():
        _, episode = opened(client, name)
        client.must("POST", f"/api/v1/episodes/{episode}/turns/", {"number": TURNS, "observation": "", "reward": 1, "done": True})
        client.episodes += 1


def opened(client: Client, name: str, reward: float | None = 0.5) -> tuple[list[int], int]:
    """An episode up to its last move: the tokens of its actions, and its id."""
    episode = client.must("POST", f"/api/v1/environments/{name}/episodes/", {})["id"]
    tokens = []
    for number in range(TURNS):
        turn = {"number": number, "observation": "Go on.", "reward": reward if number else None}
        said = client.timed("POST", f"/api/v1/episodes/{episode}/turns/", turn)
        if said["action"] is None:
            raise RuntimeError(f"no action: {said}")
        tokens.append(said["tokens"])
    return tokens, episode


def talks(client: Client, name: str, ends: Callable[[], bool]) -> None:
    """An agent that takes us for its model."""
    while not ends():
        key, heard = {"X-Rftweb-Episode": f"{name}-{id(client)}-{client.episodes}"}, []
        for _ in range(TURNS):
            heard.append({"role": "user", "content": "Go on."})
            said = client.timed("POST", "/v1/chat/completions", {"model": "policy", "messages": heard}, **key)
            heard.append(said["choices"][0]["message"])
        client.must("POST", "/v1/rl/set_reward", {"reward": 1}, **key)
        client.must("POST", "/v1/rl/end_session", {}, **key)
        client.episodes += 1


def at_once(count: int, port: int, secret: str, work: Callable[[Client], None]) -> list[Client]:
    """So many clients at work, each in a thread; what one raises is raised."""
    clients = [Client(port, secret) for _ in range(count)]

    def play(client: Client) -> None:
        try:
            work(client)
        except Exception as error:
            client.error = error

    threads = [threading.Thread(target=play, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.error:
            raise client.error
    return clients


# -- measurements -----------------------------------------------------------------------------------------------------


def measured(policy: str, options: argparse.Namespace, secret: str, address: str) -> dict[str, float]:
    """All ways in with this policy: figures by name."""
    here, there = multiprocessing.Pipe()
    process = spawned(explore, policy, there)
    try:
        found = called(policy, options, secret) | calling(policy, options, address)
        if policy == "instant":
            found |= rewarded(options, secret)
        here.send("enough")
        if bare := here.recv():
            found |= {"bare_ms": statistics.median(bare), "overhead_ms": found["push_1_ms"] - statistics.median(bare)}
    finally:
        process.kill()
    return found


def called(policy: str, options: argparse.Namespace, secret: str) -> dict[str, float]:
    """Environments that call us, and agents: by one client, then by several."""
    from apps.accounts.models import Project, Token, User
    from apps.environments.models import Environment

    name = f"push-{policy}"
    Environment.objects.create(
        project=Project.objects.get(), name=name, kind=Environment.Kind.PUSH, turn_limit=2 * TURNS, turn_s=600, parallel=10_000
    )
    found = {}
    for way, work, environment in (("push", pushes, name), ("agent", talks, "agent")):
        with running_run(f"{way}-{policy}", environment) as run:
            key = secret if way == "push" else Token.issue(User.objects.get(), "agent", [f"agent:{run.pk}"])[1]
            for count in (1, options.clients):
                ends = time.monotonic() + options.seconds
                clients = at_once(count, options.port, key, partial(work, name=environment, ends=partial(_is_after, ends)))
                found |= rates(f"{way}_{count}", clients, options.seconds + max(0.0, time.monotonic() - ends))
    return found


def _is_after(moment: float) -> bool:
    return time.monotonic() > moment


def rates(name: str, clients: list[Client], seconds: float) -> dict[str, float]:
    took = [milliseconds for client in clients for milliseconds in client.took]
    return {
        f"{name}_ms": statistics.median(took), f"{name}_turns_per_s": len(took) / seconds,
        f"{name}_episodes_per_s": sum(client.episodes for client in clients) / seconds,
    }  # fmt: skip


def calling(policy: str, options: argparse.Namespace, address: str) -> dict[str, float]:
    """Environments that we call: what the explorer plays in so many seconds, read from the table."""
    from apps.accounts.models import Project
    from apps.environments.models import Episode, EpisodeTurn
    from apps.environments.pull.registering import register

    name = f"http-{policy}"
    register(Project.objects.get(), name, "http", address, turn_limit=2 * TURNS)
    found = {}
    for way, environment in (("library", "guess_number"), ("http", name)):
        with running_run(f"{way}-{policy}", environment) as run:
            episodes = Episode.objects.filter(run=run, closed_at__isnull=False)
            turns = EpisodeTurn.objects.filter(episode__run=run, answered_at__isnull=False)
            until("an episode is over", episodes.exists)
            began, before = time.monotonic(), (episodes.count(), turns.count())
            time.sleep(options.seconds)
            seconds = time.monotonic() - began
            found |= {
                f"{way}_episodes_per_s": (episodes.count() - before[0]) / seconds,
                f"{way}_turns_per_s": (turns.count() - before[1]) / seconds,
            }
    return found


def rewarded(options: argparse.Namespace, secret: str) -> dict[str, float]:
    """Rewards in batches, then results one by one, each tenth sent twice."""
    from apps.environments.models import Episode, EpisodeTurn

    with running_run("rewarded", "push-instant"):
        held: list[int] = []
        at_once(options.clients, options.port, secret, lambda client: _hold(client, held))
        held = held[:HELD]
        said = [{"episode": episode, "turn": turn, "reward": 0.5} for episode in held for turn in range(TURNS - 1)]
        said = [again for n, one in enumerate(said) for again in [one] * (1 + (n % 10 == 9))]
        client, began = Client(options.port, secret), time.perf_counter()
        for first in range(0, len(said), BATCH):
            batch = client.must("POST", "/api/v1/rewards/", {"rewards": said[first : first + BATCH]})
            if any(result["status"] != 201 for result in batch["results"]):
                raise RuntimeError(f"refused: {next(result for result in batch['results'] if result['status'] != 201)}")
        rewards_per_s = len(said) / (time.perf_counter() - began)
        began, left, lock = time.perf_counter(), list(enumerate(held)), threading.Lock()
        at_once(options.clients, options.port, secret, lambda client: _results(client, left, lock))
        results_per_s = len(held) * 1.1 / (time.perf_counter() - began)
        turns = EpisodeTurn.objects.filter(episode__in=held, reward__isnull=False)
        taken, closed = turns.count(), Episode.objects.filter(pk__in=held, state=Episode.State.DONE).count()
        if (taken, closed) != (len(held) * TURNS, len(held)):
            raise RuntimeError(f"{taken} rewards of {len(held) * TURNS} and {closed} ends of {len(held)} are in the table")
        until("their rewards are told", lambda: _told(held) == len(held))
    return {"results_per_s": results_per_s, "rewards_per_s": rewards_per_s, "counted_twice": counted_twice(held)}


def _hold(client: Client, held: list[int]) -> None:
    while len(held) < HELD:
        held.append(opened(client, "push-instant", reward=None)[1])


def _results(client: Client, left: list[tuple[int, int]], lock: threading.Lock) -> None:
    while True:
        with lock:
            if not left:
                return
            n, episode = left.pop()
        for _ in range(1 + (n % 10 == 9)):
            status, said = client.ask("POST", f"/api/v1/episodes/{episode}/result/", {"reward": 0.5})
            if status >= 300:
                raise RuntimeError(f"result answered {status}: {said}")


def _told(held: list[int]) -> int:
    """How many of these episodes' rollouts have a word of the environment's."""
    from apps.rewards.models import Reward

    return Reward.objects.filter(rollout__episodes__in=held, source="environment").count()


def counted_twice(held: list[int]) -> int:
    """Episodes whose rollout's reward is not the sum that was paid once."""
    from apps.rewards.models import Reward

    words = Reward.objects.filter(rollout__episodes__in=held, source="environment").values_list("value", flat=True)
    return sum(abs(value - 0.5 * TURNS) > 1e-9 for value in words)


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
    print(f"{slug} …", file=sys.stderr, flush=True)
    try:
        yield run
    finally:
        run.refresh_from_db()
        run.stop()


def until(what: str, look: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while not look():
        if time.monotonic() > ends:
            raise SystemExit(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(0.02)


def report(rows: dict[str, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    print(f"{'':>26} " + " ".join(f"{policy:>10}" for policy in rows))
    for name in names:
        print(f"{name:>26} " + " ".join(f"{row[name]:>10.1f}" if name in row else f"{'':>10}" for row in rows.values()))
    figures = {f"{policy}_{name}": round(value, 1) for policy, row in rows.items() for name, value in row.items()}
    named = {name: next(round(row[name], 1) for row in rows.values() if name in row) for name in AIMS}
    print(json.dumps(figures | named | {"aims": AIMS}))


if __name__ == "__main__":
    main()
