"""Cost of storing an experience and reading it for an update: rows per second, and bytes.

The baseline is COPY of the same bytes.

    python bench/buffer.py [--experiences 5000] [--prompt 512] [--completion 512] [--growth 1000000]
    [--reference PYTHON]

One run on a PostgreSQL of its own, in batches of 64 (eight groups of eight). Written are the
explorer's results with ids and logprobs (`Group.finish_rollouts`), then the refiner's decision on
the judged groups (`refine`); judging itself is not timed. Read are the trainer's plan of a step
with its claims (`plan_step`), the batch and its arrays (`batch_of`), and the commit. The baseline
is COPY BINARY of (id, version, reward, packed arrays) in transactions of 64, each waiting for the
disk, into a table without other columns; it is read by an UPDATE … SKIP LOCKED … RETURNING and
decoded. Each batch of ours is followed by one of the baseline, so that other work on the machine
meets both. Processor time is that of the client and of all processes of this PostgreSQL.

With --reference the SQL storage of Trinity-RFT does the same on the same PostgreSQL, batch by batch
beside ours, in the environment of that Python (bench/reference_storage.py).

With --growth the database fills the tables with small rows of another run, to 10,000 and then to
that many, and the statements are measured again; plans with a sequential scan of a large table are
reported.

The last line on standard output is JSON: `write_per_s`, `read_per_s`, `bytes_each`,
`write_over_copy`, `read_over_copy`, and the two ratios by processor time with `_cpu`; with
--reference `write_over_reference`, `read_over_reference`, both with `_cpu`, and
`reference_bytes_each`; and with --growth 10000000 `claim_p95_ratio_10m_over_10k` and
`insert_p95_ratio_10m_over_10k`: of the large tables over the small ones.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

GROUPS = 8
REPLIES = 8
BATCH = GROUPS * REPLIES
SMALL = 10_000


@dataclass(frozen=True)
class Spent:
    """The wall time and the processor time of one operation on one batch, in seconds."""

    wall: float
    cpu: float

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


@dataclass
class Seconds:
    """The times of each batch, by operation."""

    sampled: list[Spent] = field(default_factory=list)
    refined: list[Spent] = field(default_factory=list)
    claimed: list[Spent] = field(default_factory=list)
    loaded: list[Spent] = field(default_factory=list)
    committed: list[Spent] = field(default_factory=list)

    @property
    def written(self) -> list[Spent]:
        if not self.refined:
            return self.sampled
        return [a + b for a, b in zip(self.sampled, self.refined, strict=True)]

    @property
    def read(self) -> list[Spent]:
        if not self.loaded:
            return self.claimed
        return [a + b for a, b in zip(self.claimed, self.loaded, strict=True)]


class Timer:
    """A context manager that appends what its block spent to a list."""

    def __init__(self, into: list[Spent]) -> None:
        self.into = into

    def __enter__(self) -> None:
        self.cpu = time.process_time() + server_seconds()
        self.began = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        wall = time.perf_counter() - self.began
        self.into.append(Spent(wall, time.process_time() + server_seconds() - self.cpu))


@cache
def postmaster() -> int:
    """Return the process id of the PostgreSQL that this process is connected to."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    return int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])


def server_seconds() -> float:
    """Return the processor time of all processes of PostgreSQL so far."""
    server = postmaster()
    child_pids = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    files = [Path(f"/proc/{pid}/schedstat") for pid in child_pids]
    return sum(int(file.read_text().split()[0]) for file in files if file.exists()) / 1e9


def main() -> None:
    options = parse_options()
    with installation(RFTWEB_DEBUG="0"):
        stage = create_buffer_stage()
        samples = drawn_tokens(options.prompt, options.completion)
        bare = Bare(samples)
        beside = [bare]
        if options.reference:
            beside.append(reference := Reference(options))
        ours, run = through_us(stage, "bench", samples, options.experiences // BATCH, beside)
        status = print_buffer_table(ours, bare.seconds, bytes_each(run))
        if options.reference:
            status |= reference.report(ours)
        if options.growth:
            status |= growth(stage, options.growth)
    print(json.dumps(status))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiences", type=int, default=5000)
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--completion", type=int, default=512, help="tokens")
    parser.add_argument("--reference", help="Python interpreter with trinity-rft, to compare with")
    parser.add_argument(
        "--growth", type=int, help="number of rows in the tables for a second measurement"
    )
    return parser.parse_args()


# -- our storage


def create_buffer_stage():
    """Create a project with a taskset and a policy row."""
    from apps.accounts.models import Project
    from apps.policies.models import Policy
    from apps.tasksets.importing import generate

    project = Project.objects.create(slug="bench", title="Bench")
    generate(project, "tone", "tone", 200, 0)
    Policy.objects.create(
        project=project,
        slug="tone",
        title="Tone",
        source="bench",
        folder="/nonexistent",
        fingerprint="0" * 16,
        architecture="Qwen3ForCausalLM",
        parameters=1,
        context_tokens=1024,
    )
    return project


def drawn_tokens(prompts: int, completions: int):
    """Return the arrays of one batch: ids with a Zipf distribution, logprobs that do not repeat."""
    from apps.rollouts.payload import Tokens

    draw = random.Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(min(151_000, int(draw.paretovariate(0.6))) for _ in range(count))

    return [
        Tokens(
            ids(prompts),
            ids(completions),
            tuple(-draw.expovariate(2) for _ in range(completions)),
            (1,) * completions,
            ((0, 0),),
        )
        for _ in range(BATCH)
    ]


def through_us(project, slug: str, samples, batches: int, beside: Sequence["Storage"] = ()):
    """Write batches of a new run, then read all of them; return the times and the run.

    Each batch is followed by one of each other storage.
    """
    from apps.buffer.models import batch_of, commit_step, plan_step

    seconds = Seconds()
    run = create_buffer_run(project, slug, batches)
    for _ in range(batches):
        write_batch(run, samples, seconds)
        for storage in beside:
            storage.write()
    run.claim_trainer("bench", 3600)
    for _ in range(batches):
        with Timer(seconds.claimed):
            step = plan_step(run, run.fence)
        with Timer(seconds.loaded):
            arrays = [experience.rollout.tokens for experience in batch_of(step)]
        if len(arrays) != BATCH:
            raise SystemExit(f"a step has {len(arrays)} experiences instead of {BATCH}")
        with Timer(seconds.committed), run.fenced(run.fence) as locked:
            commit_step(locked, step, run.fence)
        for storage in beside:
            storage.read()
    return seconds, run


def create_buffer_run(project, slug: str, batches: int):
    """Create a run all of whose groups may be open at once."""
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    plan = parse_config(
        {
            "policy": "tone",
            "taskset": "tone",
            "steps": batches,
            "group_size": REPLIES,
            "groups_per_step": GROUPS,
            "max_staleness": batches,
            "rewards": [{"scorer": "tone"}],
        }
    )
    run = Run.create(project=project, slug=slug, title="Bench", plan=plan)
    run.start()
    run.refresh_from_db()
    return run


def write_batch(run, samples, seconds: Seconds) -> None:
    """Write eight groups, from opening to admission."""
    from django.db import transaction

    from apps.accounts.durability import commit_without_waiting
    from apps.pipelines.refining import refine
    from apps.rewards.scorers import Verdict
    from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
    from apps.rollouts.models import Group, Outcome, Rollout

    opened = Group.open(run, "bench", 3600, GROUPS, 0)
    rollouts = Rollout.objects.filter(group__in=opened).order_by("pk").values_list("pk", flat=True)
    outcomes = [
        Outcome(pk, tokens, "a reply", "stop") for pk, tokens in zip(rollouts, samples, strict=True)
    ]
    with Timer(seconds.sampled), transaction.atomic():  # as the explorer does
        Group.finish_rollouts({group.pk: group.claimed for group in opened}, outcomes)
        commit_without_waiting()
    scoring = Group.objects.claim(Group.State.SCORING, "bench", 3600, GROUPS)
    questions = open_questions(scoring)
    record_verdicts(
        scoring,
        [
            AnsweredQuestion(
                question, [Verdict(place % 2.0, "bench") for place in range(len(question.rollouts))]
            )
            for question in questions
        ],
    )
    judged = Group.objects.claim(Group.State.JUDGED, "bench", 3600, GROUPS)
    with Timer(seconds.refined):
        admitted = refine(judged)
    if admitted != GROUPS:
        raise SystemExit(f"{admitted} of {GROUPS} groups were admitted")


def bytes_each(run) -> float:
    """Return the bytes per experience and its rollout on disk, with all indexes."""
    from django.db import connection

    tables = ("rollouts_rollout", "rollouts_rolloutpayload", "buffer_experience", "buffer_stepitem")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name",
            [list(tables)],
        )
        return float(cursor.fetchone()[0]) / run.experiences.count()


# -- the baseline: COPY


BARE = """CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL DEFAULT 0,
          version int NOT NULL, reward real NOT NULL, data bytea NOT NULL)"""
ALIKE = "ALTER TABLE bare ALTER data SET STORAGE EXTERNAL"  # as our payloads are stored
FREE = "CREATE INDEX bare_free ON bare (id) WHERE state = 0"
TAKE = """WITH free AS MATERIALIZED (SELECT id
    FROM bare WHERE state = 0 ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
          UPDATE bare SET state = 1 FROM free WHERE bare.id = free.id RETURNING bare.data"""


class Storage(Protocol):
    """Another storage, measured beside ours: one batch at a time."""

    def write(self) -> None:
        """Write a batch."""

    def read(self) -> None:
        """Read a batch that was not read before."""


class Bare:
    """The same arrays by COPY BINARY, claimed and decoded."""

    def __init__(self, samples) -> None:
        import psycopg

        self.samples = samples
        self.seconds = Seconds()
        self.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        for statement in (BARE, ALIKE, FREE):
            self.connection.execute(statement)

    def write(self) -> None:
        from apps.rollouts.payload import pack

        copy = "COPY bare (version, reward, data) FROM STDIN (FORMAT BINARY)"
        with Timer(self.seconds.sampled), self.connection.cursor().copy(copy) as rows:
            rows.set_types(["int4", "float4", "bytea"])
            for tokens in self.samples:
                rows.write_row((0, 1.0, pack(tokens)))

    def read(self) -> None:
        from apps.rollouts.payload import unpack_payload

        with Timer(self.seconds.claimed):
            rows = self.connection.execute(TAKE, [BATCH], binary=True).fetchall()
        with Timer(self.seconds.loaded):
            arrays = [unpack_payload(data) for (data,) in rows]
        if len(arrays) != BATCH:
            raise SystemExit(f"{len(arrays)} bare rows were taken instead of {BATCH}")


# -- the reference


class Reference:
    """Trinity-RFT's storage in a process of its own, which writes or reads a batch when told to."""

    def __init__(self, options: argparse.Namespace) -> None:
        sizes = (f"--{name}={getattr(options, name)}" for name in ("prompt", "completion"))
        script = Path(__file__).with_name("reference_storage.py")
        self.seconds = Seconds()
        self.process = subprocess.Popen(
            [options.reference, str(script), f"--batch={BATCH}", *sizes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ask("open")

    def ask(self, what: str) -> dict[str, float]:
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("the reference has ended")

    def write(self) -> None:
        self.seconds.sampled.append(self.spent("write"))

    def read(self) -> None:
        self.seconds.claimed.append(self.spent("read"))

    def spent(self, what: str) -> Spent:
        server = server_seconds()
        reply = self.ask(what)
        return Spent(reply["wall"], reply["cpu"] + server_seconds() - server)

    def report(self, ours: Seconds) -> dict[str, float]:
        """Print its figures; return ours relative to them."""
        row_bytes = self.ask("bytes")["bytes"]
        line("reference: written", self.seconds.written)
        line("reference: read", self.seconds.read)
        print(f"{'reference: bytes on disk for each':34}{row_bytes:14,.0f}")
        self.process.stdin.close()
        self.process.wait()
        return {
            **ratios("write_over_reference", ours.written, self.seconds.written),
            **ratios("read_over_reference", ours.read, self.seconds.read),
            "reference_bytes_each": round(row_bytes),
        }


# -- the report


def per_second(spent: list[Spent]) -> float:
    return BATCH * len(spent) / sum(batch_time.wall for batch_time in spent)


def print_buffer_table(ours: Seconds, raw: Seconds, row_bytes: float) -> dict[str, float]:
    """Print a table; return the named figures."""
    print(f"{'':34}{'experiences/s':>14}{'p95 of a batch':>18}{'processor, each':>18}")
    for name, spent in (
        ("outcomes of the explorer", ours.sampled),
        ("verdicts of the refiner", ours.refined),
        ("written in all", ours.written),
        ("COPY of the same bytes", raw.written),
        ("planned and claimed", ours.claimed),
        ("loaded and decoded", ours.loaded),
        ("read in all", ours.read),
        ("committed", ours.committed),
        ("bare claim and decoding", raw.read),
    ):
        line(name, spent)
    print(f"{'bytes on disk for each':34}{row_bytes:14,.0f}")
    return {
        "write_per_s": round(per_second(ours.written)),
        "read_per_s": round(per_second(ours.read)),
        "bytes_each": round(row_bytes),
        **ratios("write_over_copy", ours.written, raw.written),
        **ratios("read_over_copy", ours.read, raw.read),
    }


def line(name: str, spent: list[Spent]) -> None:
    cpu = sum(batch_time.cpu for batch_time in spent) / len(spent) / BATCH
    print(
        f"{name:34}{per_second(spent):14,.0f}{p95(spent) * 1000:15.1f} ms{cpu * 1e6:15.0f} µs",
        flush=True,
    )


def ratios(name: str, ours: list[Spent], reference: list[Spent]) -> dict[str, float]:
    """Return how many times as fast ours is, by wall time and by processor time."""
    cpu = sum(batch_time.cpu for batch_time in reference) / sum(
        batch_time.cpu for batch_time in ours
    )
    return {
        name: round(per_second(ours) / per_second(reference), 3),
        f"{name}_cpu": round(cpu, 3),
    }


def p95(spent: list[Spent]) -> float:
    walls = sorted(batch_time.wall for batch_time in spent)
    return walls[int(0.95 * (len(walls) - 1))]


# -- large tables

# Rows of an ended run; %(first)s groups exist already.
FILL = (
    """INSERT INTO rollouts_group SELECT new.*
        FROM generate_series(%(first)s, %(last)s - 1) n, rollouts_group old,
           LATERAL jsonb_populate_record(old, jsonb_build_object(
               'id', nextval(pg_get_serial_sequence('rollouts_group', 'id')), 'draw_index', n)) new
       WHERE old.run_id = %(run)s AND old.draw_index = 0""",
    """WITH made AS (
           INSERT INTO rollouts_rollout SELECT new.* FROM rollouts_group g, rollouts_rollout old,
               LATERAL jsonb_populate_record(old, jsonb_build_object(
                   'id', nextval(pg_get_serial_sequence('rollouts_rollout', 'id')), 'group_id',
                       g.id)) new
           WHERE g.run_id = %(run)s AND g.draw_index >= %(first)s AND old.group_id = %(origin)s
               RETURNING *)
       , paid AS (INSERT INTO rollouts_rolloutpayload SELECT id, '\\x00' FROM made)
       INSERT INTO buffer_experience SELECT new.* FROM made, buffer_experience old,
           LATERAL jsonb_populate_record(old,
               jsonb_build_object('id', nextval(pg_get_serial_sequence('buffer_experience', 'id')),
               'group_id', made.group_id, 'rollout_id', made.id)) new
       WHERE old.id = %(experience)s""",
)
LARGE = (
    "rollouts_group",
    "rollouts_rollout",
    "rollouts_rolloutpayload",
    "buffer_experience",
    "buffer_stepitem",
)
SLICE = 25_000  # groups written by one statement
MEASURED = 60  # batches


def growth(project, large: int) -> dict[str, float]:
    """Measure our statements on small and on large tables.

    Returns the ratios of their 95th percentiles.
    """
    samples = drawn_tokens(16, 16)
    _, old = through_us(project, "old", samples, 1)
    group_count = GROUPS
    timings = {}
    for rows in (SMALL, large):
        group_count = copy_groups(old, group_count, rows // REPLIES)
        before = scans()
        timings[rows], _ = through_us(project, f"among-{rows}", samples, MEASURED)
        walked = [table for table, count in scans().items() if count > before[table]]
        text = (
            f"insert p95 {p95(timings[rows].written) * 1000:.1f} ms, claim p95"
            f" {p95(timings[rows].claimed) * 1000:.1f} ms"
        )
        print(
            f"among {rows:,}: {text}, read from end to end: {', '.join(walked) or 'nothing'}",
            flush=True,
        )
    pair = f"{format_count(large)}_over_{format_count(SMALL)}"
    return {
        f"insert_p95_ratio_{pair}": round(
            p95(timings[large].written) / p95(timings[SMALL].written), 2
        ),
        f"claim_p95_ratio_{pair}": round(
            p95(timings[large].claimed) / p95(timings[SMALL].claimed), 2
        ),
    }


def format_count(rows: int) -> str:
    """Format a row count: 10000 → "10k", 10000000 → "10m"."""
    return next(
        (
            f"{rows // unit}{letter}"
            for unit, letter in ((10**6, "m"), (10**3, "k"))
            if rows % unit == 0
        ),
        str(rows),
    )


def copy_groups(run, count: int, groups: int) -> int:
    """Copy the run's first group until it has so many; return how many it has."""
    from django.db import connection

    began = time.perf_counter()
    origin = run.groups.get(draw_index=0).pk
    experience = run.experiences.filter(group=origin).first().pk
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        while count < groups:
            last = min(groups, count + SLICE)
            for statement in FILL:
                cursor.execute(
                    statement,
                    {
                        "run": run.pk,
                        "first": count,
                        "last": last,
                        "origin": origin,
                        "experience": experience,
                    },
                )
            count = last
        for table in LARGE:
            cursor.execute(f"VACUUM ANALYZE {table}")
    print(
        f"{groups * REPLIES:,} experiences are there; written in"
        f" {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return count


def scans() -> dict[str, int]:
    """Return the number of sequential scans of each large table so far."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname = ANY(%s)",
            [list(LARGE)],
        )
        return dict(cursor.fetchall())


if __name__ == "__main__":
    main()
