"""What one decision costs a rater, from asking for an item to its answer being stored: seconds, and decisions a second.

    python bench/rating_api.py [--sizes 1000,100000,1000000] [--clients 1,8] [--seconds 15] [--claims 10000] [--port 8431]

One run with so many waiting items (one reply of about 500 words each, four to a group), a real web process, eight
accounts with a browser's session each. Every client asks for the next item and submits stars for it, over and over. Beside it
the bare database: the same tables, claimed by one UPDATE … SKIP LOCKED and answered by one INSERT in psycopg, nothing else.
Clients, web process and PostgreSQL share the machine.

The last line on standard output is JSON: `ratings_per_s_1`, `ratings_per_s_8` (at 100,000 items), `next_p95_ms_100k`,
`submit_p95_ms_100k` (one client), the ratios to the bare loop, the slope from the fewest to the most items, and how many
items were ever in two hands.
"""

import argparse
import gzip
import http.client
import json
import multiprocessing
import os
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
REPLIES_PER_GROUP = 4
WORDS = "I am sorry that your parcel is late and I will trace it at once so that you know today where it is"
WORDS_PER_REPLY = 500
MEANT = 100_000  # the size that the published figures are about
WAIT_S = 120.0


def main() -> None:
    options = parse_options()
    from rftweb.embedded import running

    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as var, running(Path(var)) as (database, redis):
        os.environ.update(
            DATABASE_URL=database, REDIS_URL=redis, RFTWEB_VAR=var, DJANGO_SETTINGS_MODULE="rftweb.settings",
            RFTWEB_LOG_LEVEL="WARNING", RFTWEB_DEBUG="0",
        )  # fmt: skip
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        call_command("createcachetable", verbosity=0)
        stage = furnish(max(options.clients))
        with web(options.port):
            rows, doubles, claims = measure(options, stage, database)
    report(options, rows, doubles, claims)


@dataclass(frozen=True)
class Rater:
    """An account with a browser's session: its cookies and its CSRF token."""

    pk: int
    cookie: str
    csrf: str


@dataclass(frozen=True)
class Stage:
    project: int
    taskset: int
    policy: int
    tasks: tuple[int, ...]
    raters: tuple[Rater, ...]


@dataclass
class Timing:
    """What a client measured: seconds of each request, and the slots that it was given."""

    next_s: list[float] = field(default_factory=list)
    submit_s: list[float] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.submit_s) / self.seconds


def furnish(accounts: int) -> Stage:
    """A project with a policy row, a small taskset, and signed-in raters."""
    from django.conf import settings
    from django.middleware.csrf import get_token
    from django.test import Client, RequestFactory

    from apps.accounts.models import Membership, Project, User
    from apps.policies.models import Policy
    from apps.tasksets.importing import generate

    project = Project.objects.create(slug="bench", title="Bench")
    generate(project, "tone", "tone", 200, 0)
    policy = Policy.objects.create(
        project=project, slug="tone", title="Tone", source="bench", folder="/nonexistent", fingerprint="0" * 16,
        architecture="Qwen3ForCausalLM", parameters=1, context_tokens=256,
    )  # fmt: skip
    raters = []
    for number in range(accounts):
        user = User.objects.create_user(f"rater-{number}")
        Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
        client, asked = Client(), RequestFactory().get("/")
        client.force_login(user)
        token = get_token(asked)
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        raters.append(Rater(user.pk, f"{cookie}; {settings.CSRF_COOKIE_NAME}={asked.META['CSRF_COOKIE']}", token))
    taskset = project.tasksets.get()
    return Stage(project.pk, taskset.pk, policy.pk, tuple(taskset.tasks.values_list("pk", flat=True)), tuple(raters))


def new_run(stage: Stage, size: int) -> int:
    """A run in which `size` items wait, written by the database itself; returns its id."""
    from django.db import connection

    from apps.accounts.models import Project
    from apps.runs.config import parse
    from apps.runs.models import Run

    plan = parse({
        "policy": "tone", "taskset": "tone", "steps": 10, "group_size": REPLIES_PER_GROUP, "groups_per_step": 4,
        "rewards": [{"scorer": "tone"}], "people": {"per_group": REPLIES_PER_GROUP, "deadline_s": 86_400, "open_claims": 3},
    })  # fmt: skip
    run = Run.create(project=Project.objects.get(pk=stage.project), slug=f"items-{size}", title="Bench", plan=plan)
    run.start()
    write_first_group(run, stage)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        for statement in COPY_GROUP:
            cursor.execute(statement, {"run": run.pk, "groups": size // REPLIES_PER_GROUP, "tasks": list(stage.tasks)})
        cursor.execute("ANALYZE")
    return run.pk


def write_first_group(run, stage: Stage) -> None:
    """One group that waits for people, as the scorer leaves it; all others are copies of it."""
    from datetime import timedelta

    from django.db.models.functions import Now

    from apps.feedback.opening import open_items
    from apps.rollouts.models import Group, Rollout

    words = WORDS.split()
    text = " ".join(words[n % len(words)] for n in range(WORDS_PER_REPLY))
    group = Group.objects.create(
        run=run, draw_index=0, task_id=stage.tasks[0], size=REPLIES_PER_GROUP, state=Group.State.WAITING, opened_version=0,
        deadline_at=Now() + timedelta(days=1),
    )  # fmt: skip
    Rollout.objects.bulk_create(
        Rollout(run=run, group=group, sample_index=n, state=Rollout.State.FINISHED, text=text, stop_reason="stop", first_version=0,
                last_version=0, prompt_tokens=12, completion_tokens=640)
        for n in range(REPLIES_PER_GROUP)
    )  # fmt: skip
    open_items([group])


# Rows like those of the first group, with ids of their own.
COPY_GROUP = (
    """INSERT INTO rollouts_group
       SELECT new.* FROM generate_series(1, %(groups)s - 1) n, rollouts_group first, LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('rollouts_group', 'id')), 'draw_index', n,
               'task_id', (%(tasks)s::bigint[])[1 + n %% cardinality(%(tasks)s::bigint[])],
               'deadline_at', first.deadline_at + n * interval '1 ms')) new
       WHERE first.run_id = %(run)s AND first.draw_index = 0""",
    """INSERT INTO rollouts_rollout
       SELECT new.* FROM rollouts_group g JOIN rollouts_group f ON f.run_id = g.run_id AND f.draw_index = 0
           JOIN rollouts_rollout first ON first.group_id = f.id, LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('rollouts_rollout', 'id')), 'group_id', g.id)) new
       WHERE g.run_id = %(run)s AND g.draw_index > 0""",
    """INSERT INTO feedback_item
       SELECT new.* FROM rollouts_group g JOIN rollouts_rollout r ON r.group_id = g.id
           JOIN feedback_item first ON first.id = (SELECT min(id) FROM feedback_item WHERE run_id = %(run)s),
           LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('feedback_item', 'id')), 'group_id', g.id,
               'members', jsonb_build_array(r.id))) new
       WHERE g.run_id = %(run)s AND g.draw_index > 0""",
    """INSERT INTO feedback_slot
       SELECT new.* FROM feedback_item i JOIN rollouts_group g ON g.id = i.group_id
           JOIN feedback_slot first ON first.id = (SELECT min(id) FROM feedback_slot WHERE run_id = %(run)s),
           LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('feedback_slot', 'id')), 'item_id', i.id, 'group_id', g.id,
               'due_at', g.deadline_at)) new
       WHERE i.run_id = %(run)s AND g.draw_index > 0""",
    "UPDATE runs_run SET groups_opened = %(groups)s WHERE id = %(run)s",
)


class web:
    """The web process as `manage.py up` starts it."""

    def __init__(self, port: int) -> None:
        from rftweb.supervisor.roles import Plan, web_program

        self.port = port
        self.command, _ = web_program(Plan(Path(os.environ["RFTWEB_VAR"]), port=port)).prepare()

    def __enter__(self) -> "web":
        from rftweb.supervisor.roles import answers_http

        self.process = subprocess.Popen(self.command, cwd=ROOT)
        ends = time.monotonic() + WAIT_S
        while not answers_http(self.port):
            if self.process.poll() is not None or time.monotonic() > ends:
                self.__exit__()
                raise SystemExit("the web process did not serve")
            time.sleep(0.1)
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.terminate()
        self.process.wait(20)


# ---- clients: each in a process of its own, and light ------------------------------------------------------------------


class Browser:
    """Asks and answers as a rater's page does, over one connection that is kept open."""

    def __init__(self, port: int, run: int, rater: Rater) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.run = run
        self.headers = {"Cookie": rater.cookie, "X-CSRFToken": rater.csrf, "HX-Request": "true", "Accept-Encoding": "gzip"}

    def next(self) -> tuple[int, int, int] | None:
        """Slot, fence and version of an item held from now on; None when nothing waits."""
        status, body = self.ask("POST", f"/rate/next/?run={self.run}", "{}")
        if status == 204:
            return None
        found = {name: int(re.search(rf'data-{name}="(\d+)"', body).group(1)) for name in ("slot", "fence", "version")}
        return found["slot"], found["fence"], found["version"]

    def submit(self, slot: int, fence: int, version: int) -> None:
        said = {
            "fence": fence, "version": version, "client_uuid": str(uuid.uuid4()), "form": "stars",
            "answer": {"stars": 1 + slot % 5}, "critique": "", "seconds": 4.2, "first_key_ms": 900, "changes": 0,
        }  # fmt: skip
        self.ask("POST", f"/rate/slots/{slot}/", json.dumps(said))

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        headers = {**self.headers, "Content-Type": "application/json"} if body else self.headers
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        said = answer.read()
        said = (gzip.decompress(said) if answer.headers.get("Content-Encoding") == "gzip" else said).decode()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {said[:300]}")
        return answer.status, said


class Bare:
    """The same two steps in SQL alone, in autocommit transactions, on a connection that is kept open."""

    CLAIM = """
        WITH next AS (SELECT id FROM feedback_slot WHERE run_id = %(run)s AND state = 'open' ORDER BY due_at, id LIMIT 1
                      FOR UPDATE SKIP LOCKED)
        UPDATE feedback_slot s SET state = 'held', rater_id = %(rater)s, fence = fence + 1, held_at = now(),
            lease_until = now() + interval '2 minutes', shown = i.members
        FROM next, feedback_item i, rollouts_rollout r WHERE s.id = next.id AND i.id = s.item_id AND r.id = i.members[1]
        RETURNING s.id, s.fence, i.version, r.text"""
    SUBMIT = """
        WITH done AS (UPDATE feedback_slot SET state = 'done' WHERE id = %(slot)s AND fence = %(fence)s AND state = 'held'
                      RETURNING item_id, run_id, shown)
        INSERT INTO feedback_rating (item_id, rollout_id, run_id, rater_id, form, answer, critique, shown, client_uuid,
            is_current, is_withdrawn, is_late, seconds, first_key_ms, changes)
        SELECT item_id, shown[1], run_id, %(rater)s, 'stars', %(answer)s, '', shown, %(uuid)s, true, false, false, 4.2, 900, 0
        FROM done"""

    def __init__(self, database: str, run: int, rater: Rater) -> None:
        import psycopg

        self.connection = psycopg.connect(database, autocommit=True)
        self.run, self.rater = run, rater.pk

    def next(self) -> tuple[int, int, int] | None:
        row = self.connection.execute(self.CLAIM, {"run": self.run, "rater": self.rater}).fetchone()
        return None if row is None else row[:3]

    def submit(self, slot: int, fence: int, _version: int) -> None:
        answer = json.dumps({"stars": 1 + slot % 5})
        said = {"slot": slot, "fence": fence, "rater": self.rater, "answer": answer, "uuid": uuid.uuid4()}
        if self.connection.execute(self.SUBMIT, said).rowcount != 1:
            raise RuntimeError(f"slot {slot} was lost")


def rate(face: Browser | Bare, start, seconds: float, at_most: int, timings) -> None:
    """One client's whole life: warm up by one decision, wait for the others, decide until the time is over."""
    timing = Timing()
    decide(face, Timing())
    start.wait(WAIT_S)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds and len(timing.slots) < at_most:
        if not decide(face, timing):
            break
    timing.seconds = time.perf_counter() - began
    timings.put(timing)


def decide(face: Browser | Bare, timing: Timing) -> bool:
    began = time.perf_counter()
    held = face.next()
    asked = time.perf_counter()
    if held is None:
        return False
    face.submit(*held)
    timing.next_s.append(asked - began)
    timing.submit_s.append(time.perf_counter() - asked)
    timing.slots.append(held[0])
    return True


def client(kind: str, where: object, run: int, rater: Rater, *rest: object) -> None:
    rate(Browser(where, run, rater) if kind == "web" else Bare(where, run, rater), *rest)


def together(kind: str, where: object, run: int, raters: tuple[Rater, ...], seconds: float, at_most: int = sys.maxsize) -> Timing:
    """All clients at once, each with its account; their times in one list, their seconds the longest."""
    processes = multiprocessing.get_context("spawn")
    start, timings = processes.Barrier(len(raters)), processes.Queue()
    crew = [processes.Process(target=client, args=(kind, where, run, rater, start, seconds, at_most, timings)) for rater in raters]
    for member in crew:
        member.start()
    found: list[Timing] = []
    while len(found) < len(crew):
        try:
            found.append(timings.get(timeout=1))
        except queue.Empty:
            if any(member.exitcode for member in crew):
                raise SystemExit("a client failed; its words stand above") from None
    for member in crew:
        member.join(WAIT_S)
    return Timing(
        [s for t in found for s in t.next_s], [s for t in found for s in t.submit_s],
        [slot for t in found for slot in t.slots], max(t.seconds for t in found),
    )  # fmt: skip


def measure(options: argparse.Namespace, stage: Stage, database: str) -> tuple[list[dict], int, int]:
    """One row of figures per size, kind and number of clients; how many slots two clients were given, of how many claims."""
    rows, claims, doubles = [], 0, 0
    largest = 0
    for size in options.sizes:
        began = time.monotonic()
        run = new_run(stage, size)
        print(f"{size:,} items wait; written in {time.monotonic() - began:.0f} s", flush=True)
        for clients in options.clients:
            for kind, where in (("web", options.port), ("bare", database)):
                timing = together(kind, where, run, stage.raters[:clients], options.seconds)
                rows.append({"size": size, "clients": clients, "kind": kind, **figures(timing)})
                print(line(rows[-1]), flush=True)
                if kind == "web":
                    claims, doubles = claims + len(timing.slots), doubles + len(timing.slots) - len(set(timing.slots))
        largest = run
    if claims < options.claims:
        each = -(-(options.claims - claims) // max(options.clients))
        timing = together("web", options.port, largest, stage.raters[: max(options.clients)], WAIT_S * 10, each)
        claims, doubles = claims + len(timing.slots), doubles + len(timing.slots) - len(set(timing.slots))
    return rows, doubles, claims


def figures(timing: Timing) -> dict[str, float]:
    found = {"per_s": timing.rate, "decisions": len(timing.slots)}
    for name, seconds in (("next", timing.next_s), ("submit", timing.submit_s)):
        cuts = statistics.quantiles(seconds, n=20)
        found |= {f"{name}_p50_ms": 1000 * statistics.median(seconds), f"{name}_p95_ms": 1000 * cuts[18]}
    return found


def line(row: dict) -> str:
    times = "  ".join(f"{name} {row[f'{name}_p50_ms']:6.1f} / {row[f'{name}_p95_ms']:6.1f} ms" for name in ("next", "submit"))
    return f"{row['size']:>9,} items  {row['clients']} clients  {row['kind']:4}  {row['per_s']:7.1f} ratings/s  {times}"


def report(options: argparse.Namespace, rows: list[dict], doubles: int, claims: int) -> None:
    found = {(row["size"], row["clients"], row["kind"]): row for row in rows}
    meant = MEANT if MEANT in options.sizes else max(options.sizes)
    few, many = min(options.sizes), max(options.sizes)
    facts: dict[str, object] = {"items": meant}
    for clients in options.clients:
        web_row, bare_row = found[meant, clients, "web"], found[meant, clients, "bare"]
        facts[f"ratings_per_s_{clients}"] = round(web_row["per_s"], 1)
        facts[f"ratings_per_s_{clients}_over_bare"] = round(web_row["per_s"] / bare_row["per_s"], 3)
    one, name = found[meant, options.clients[0], "web"], "100k" if meant == MEANT else str(meant)
    facts |= {f"next_p95_ms_{name}": round(one["next_p95_ms"], 1), f"submit_p95_ms_{name}": round(one["submit_p95_ms"], 1)}
    facts |= {
        f"{step}_p50_{many}_over_{few}": round(
            found[many, options.clients[0], "web"][f"{step}_p50_ms"] / found[few, options.clients[0], "web"][f"{step}_p50_ms"], 2
        )
        for step in ("next", "submit")
    }
    print(json.dumps({**facts, "claims": claims, "double_claims": doubles}))


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=numbers, default=[1_000, 100_000, 1_000_000], help="waiting items, from few to many")
    parser.add_argument("--clients", type=numbers, default=[1, 8])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--claims", type=int, default=10_000, help="web claims in all, looked through for doubles")
    parser.add_argument("--port", type=int, default=8431)
    return parser.parse_args()


if __name__ == "__main__":
    main()
