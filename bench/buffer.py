"""What storing an experience and taking it for an update costs: rows a second, next to COPY of the same bytes, and bytes each.

    python bench/buffer.py [--experiences 5000] [--prompt 512] [--completion 512] [--growth 1000000] [--reference PYTHON]

One run on a PostgreSQL of its own, in batches of 64 (eight groups of eight). Written: the explorer's outcomes with ids and
logprobs (`Group.finish_rollouts`), then the refiner's verdict on the judged groups (`refine`); judging itself is not timed.
Read: the trainer's plan of a step with what it claims (`plan_step`), the batch and its arrays (`batch_of`), and the commit.
Beside it COPY BINARY of (id, version, reward, packed arrays) in transactions of 64 into a table without other columns, read by an
UPDATE … SKIP LOCKED … RETURNING and decoded.

With --reference the SQL storage of Trinity-RFT does the same on the same PostgreSQL, in the environment whose Python that is
(bench/reference_storage.py).

With --growth the tables are filled up by the database itself with small rows of another run, to 10,000 and then to so many,
and both are measured again; a plan with a sequential scan of a large table is named.

The last line on standard output is JSON: `write_per_s`, `read_per_s`, `bytes_each`, `write_over_copy`, `read_over_copy`; with
--reference `write_over_reference`, `read_over_reference` and `reference_bytes_each`; and with --growth 10000000
`claim_p95_ratio_10m_over_10k` and `insert_p95_ratio_10m_over_10k`: of the large tables over the small ones.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

GROUPS, REPLIES = 8, 8
BATCH = GROUPS * REPLIES
SMALL = 10_000


@dataclass
class Seconds:
    """Of each batch, by what was done."""

    sampled: list[float] = field(default_factory=list)
    refined: list[float] = field(default_factory=list)
    claimed: list[float] = field(default_factory=list)
    loaded: list[float] = field(default_factory=list)
    committed: list[float] = field(default_factory=list)

    @property
    def written(self) -> list[float]:
        return [a + b for a, b in zip(self.sampled, self.refined, strict=True)]

    @property
    def read(self) -> list[float]:
        return [a + b for a, b in zip(self.claimed, self.loaded, strict=True)]


class Timer:
    """Adds what its block took to a list."""

    def __init__(self, into: list[float]) -> None:
        self.into = into

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        self.into.append(time.perf_counter() - self.began)


def main() -> None:
    options = parse_options()
    with installation(RFTWEB_DEBUG="0"):
        stage = furnish()
        samples = drawn_tokens(options.prompt, options.completion)
        ours, run = through_us(stage, "bench", samples, options.experiences // BATCH)
        raw = by_copy(samples, options.experiences // BATCH)
        said = report(ours, raw, bytes_each(run))
        if options.reference:
            said |= beside_reference(options, said)
        if options.growth:
            said |= growth(stage, options.growth)
    print(json.dumps(said))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiences", type=int, default=5000)
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--completion", type=int, default=512, help="tokens")
    parser.add_argument("--reference", help="a Python that has trinity-rft, to be measured beside")
    parser.add_argument("--growth", type=int, help="rows up to which the tables are filled for a second measurement")
    return parser.parse_args()


# -- ours --------------------------------------------------------------------------------------------------------------


def furnish():
    """A project with a taskset and a policy row."""
    from apps.accounts.models import Project
    from apps.policies.models import Policy
    from apps.tasksets.importing import generate

    project = Project.objects.create(slug="bench", title="Bench")
    generate(project, "tone", "tone", 200, 0)
    Policy.objects.create(
        project=project, slug="tone", title="Tone", source="bench", folder="/nonexistent", fingerprint="0" * 16,
        architecture="Qwen3ForCausalLM", parameters=1, context_tokens=1024,
    )  # fmt: skip
    return project


def drawn_tokens(prompts: int, completions: int):
    """The arrays of one batch: ids spread as words are (Zipf), logprobs that do not repeat."""
    from apps.rollouts.payload import Tokens

    draw = random.Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(min(151_000, int(draw.paretovariate(0.6))) for _ in range(count))

    return [
        Tokens(
            ids(prompts), ids(completions), tuple(-draw.expovariate(2) for _ in range(completions)), (1,) * completions, ((0, 0),)
        )
        for _ in range(BATCH)
    ]


def through_us(project, slug: str, samples, batches: int):
    """Write so many batches of a new run, then train on all of them but for the update itself; the seconds, and the run."""
    from apps.buffer.models import batch_of, commit_step, plan_step

    seconds, run = Seconds(), new_run(project, slug, batches)
    for _ in range(batches):
        write_batch(run, samples, seconds)
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
    return seconds, run


def new_run(project, slug: str, batches: int):
    """A run all of whose groups may be opened at once."""
    from apps.runs.config import parse
    from apps.runs.models import Run

    plan = parse({
        "policy": "tone", "taskset": "tone", "steps": batches, "group_size": REPLIES, "groups_per_step": GROUPS,
        "max_staleness": batches, "rewards": [{"scorer": "tone"}],
    })  # fmt: skip
    run = Run.create(project=project, slug=slug, title="Bench", plan=plan)
    run.start()
    run.refresh_from_db()
    return run


def write_batch(run, samples, seconds: Seconds) -> None:
    """Eight groups from drawn to admitted."""
    from apps.pipelines.refining import refine
    from apps.rewards.scorers import Verdict
    from apps.rewards.scoring import Answered, open_questions, record_verdicts
    from apps.rollouts.models import Group, Outcome, Rollout

    opened = Group.open(run, "bench", 3600, GROUPS, 0)
    rollouts = Rollout.objects.filter(group__in=opened).order_by("pk").values_list("pk", flat=True)
    outcomes = [Outcome(pk, tokens, "a reply", "stop") for pk, tokens in zip(rollouts, samples, strict=True)]
    with Timer(seconds.sampled):
        Group.finish_rollouts({group.pk: group.claimed for group in opened}, outcomes)
    scoring = Group.objects.claim(Group.State.SCORING, "bench", 3600, GROUPS)
    asked = open_questions(scoring)
    record_verdicts(
        scoring, [Answered(one, [Verdict(place % 2.0, "bench") for place in range(len(one.rollouts))]) for one in asked]
    )
    judged = Group.objects.claim(Group.State.JUDGED, "bench", 3600, GROUPS)
    with Timer(seconds.refined):
        admitted = refine(judged)
    if admitted != GROUPS:
        raise SystemExit(f"{admitted} of {GROUPS} groups were admitted")


def bytes_each(run) -> float:
    """On disk with all indexes: what is kept of an experience and its rollout."""
    from django.db import connection

    tables = ("rollouts_rollout", "rollouts_rolloutpayload", "buffer_experience", "buffer_stepitem")
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name", [list(tables)])
        return float(cursor.fetchone()[0]) / run.experiences.count()


# -- the bare database -------------------------------------------------------------------------------------------------


BARE = """CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state smallint NOT NULL DEFAULT 0,
          version int NOT NULL, reward real NOT NULL, data bytea NOT NULL)"""
FREE = "CREATE INDEX bare_free ON bare (id) WHERE state = 0"
TAKE = """WITH free AS MATERIALIZED (SELECT id FROM bare WHERE state = 0 ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
          UPDATE bare SET state = 1 FROM free WHERE bare.id = free.id RETURNING bare.data"""


def by_copy(samples, batches: int) -> Seconds:
    """The same arrays by COPY BINARY, claimed again and decoded."""
    import psycopg

    from apps.rollouts.payload import pack, unpack

    seconds = Seconds()
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(BARE)
        connection.execute(FREE)
        for _ in range(batches):
            with (
                Timer(seconds.sampled),
                connection.cursor().copy("COPY bare (version, reward, data) FROM STDIN (FORMAT BINARY)") as rows,
            ):
                rows.set_types(["int4", "float4", "bytea"])
                for tokens in samples:
                    rows.write_row((0, 1.0, pack(tokens)))
        for _ in range(batches):
            with Timer(seconds.claimed):
                taken = connection.execute(TAKE, [BATCH], binary=True).fetchall()
            with Timer(seconds.loaded):
                arrays = [unpack(data) for (data,) in taken]
            if len(arrays) != BATCH:
                raise SystemExit(f"{len(arrays)} bare rows were taken instead of {BATCH}")
    return seconds


# -- the reference -----------------------------------------------------------------------------------------------------


def beside_reference(options: argparse.Namespace, ours: dict[str, float]) -> dict[str, float]:
    """The same with Trinity-RFT's storage: its figures on standard output, and ours over them."""
    sizes = (f"--{name}={getattr(options, name)}" for name in ("experiences", "prompt", "completion"))
    script = Path(__file__).with_name("reference_storage.py")
    command = [options.reference, str(script), f"--batch={BATCH}", *sizes]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    theirs = json.loads(told.splitlines()[-1])
    for name, key in (("written", "write_per_s"), ("read", "read_per_s"), ("bytes on disk for each", "bytes_each")):
        print(f"{'reference: ' + name:34}{theirs[key]:14,.0f}")
    return {
        "write_over_reference": round(ours["write_per_s"] / theirs["write_per_s"], 2),
        "read_over_reference": round(ours["read_per_s"] / theirs["read_per_s"], 2),
        "reference_bytes_each": round(theirs["bytes_each"]),
    }


# -- what is said ------------------------------------------------------------------------------------------------------


def per_second(seconds: list[float]) -> float:
    return BATCH * len(seconds) / sum(seconds)


def report(ours: Seconds, raw: Seconds, each: float) -> dict[str, float]:
    """A table on standard output; the named figures."""
    print(f"{'':34}{'experiences/s':>14}{'p95 of a batch':>18}")
    for name, seconds in (
        ("outcomes of the explorer", ours.sampled), ("verdicts of the refiner", ours.refined), ("written in all", ours.written),
        ("COPY of the same bytes", raw.sampled), ("planned and claimed", ours.claimed), ("loaded and decoded", ours.loaded),
        ("read in all", ours.read), ("committed", ours.committed), ("bare claim and decoding", raw.read),
    ):  # fmt: skip
        print(f"{name:34}{per_second(seconds):14,.0f}{p95(seconds) * 1000:15.1f} ms")
    print(f"{'bytes on disk for each':34}{each:14,.0f}")
    written, read = per_second(ours.written), per_second(ours.read)
    return {
        "write_per_s": round(written), "read_per_s": round(read), "bytes_each": round(each),
        "write_over_copy": round(written / per_second(raw.sampled), 3), "read_over_copy": round(read / per_second(raw.read), 3),
    }  # fmt: skip


def p95(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.95 * (len(seconds) - 1))]


# -- large tables ------------------------------------------------------------------------------------------------------

# Rows of a run that is over, as they stay behind; %(first)s groups are there already.
FILL = (
    """INSERT INTO rollouts_group SELECT new.* FROM generate_series(%(first)s, %(last)s - 1) n, rollouts_group old,
           LATERAL jsonb_populate_record(old, jsonb_build_object(
               'id', nextval(pg_get_serial_sequence('rollouts_group', 'id')), 'draw_index', n)) new
       WHERE old.run_id = %(run)s AND old.draw_index = 0""",
    """WITH made AS (
           INSERT INTO rollouts_rollout SELECT new.* FROM rollouts_group g, rollouts_rollout old,
               LATERAL jsonb_populate_record(old, jsonb_build_object(
                   'id', nextval(pg_get_serial_sequence('rollouts_rollout', 'id')), 'group_id', g.id)) new
           WHERE g.run_id = %(run)s AND g.draw_index >= %(first)s AND old.group_id = %(origin)s RETURNING *)
       , paid AS (INSERT INTO rollouts_rolloutpayload SELECT id, '\\x00' FROM made)
       INSERT INTO buffer_experience SELECT new.* FROM made, buffer_experience old,
           LATERAL jsonb_populate_record(old, jsonb_build_object('id', nextval(pg_get_serial_sequence('buffer_experience', 'id')),
               'group_id', made.group_id, 'rollout_id', made.id)) new
       WHERE old.id = %(experience)s""",
)  # fmt: skip
LARGE = ("rollouts_group", "rollouts_rollout", "rollouts_rolloutpayload", "buffer_experience", "buffer_stepitem")
SLICE = 25_000  # groups written by one statement
MEASURED = 60  # batches


def growth(project, most: int) -> dict[str, float]:
    """Our statements where the tables are small and where they are large; the ratios of their 95th percentiles."""
    samples = drawn_tokens(16, 16)
    _, old = through_us(project, "old", samples, 1)
    there, found = GROUPS, {}
    for rows in (SMALL, most):
        there = fill(old, there, rows // REPLIES)
        before = scans()
        found[rows], _ = through_us(project, f"among-{rows}", samples, MEASURED)
        walked = [table for table, count in scans().items() if count > before[table]]
        told = f"insert p95 {p95(found[rows].written) * 1000:.1f} ms, claim p95 {p95(found[rows].claimed) * 1000:.1f} ms"
        print(f"among {rows:,}: {told}, read from end to end: {', '.join(walked) or 'nothing'}", flush=True)
    pair = f"{short(most)}_over_{short(SMALL)}"
    return {
        f"insert_p95_ratio_{pair}": round(p95(found[most].written) / p95(found[SMALL].written), 2),
        f"claim_p95_ratio_{pair}": round(p95(found[most].claimed) / p95(found[SMALL].claimed), 2),
    }


def short(rows: int) -> str:
    """10000 → "10k", 10000000 → "10m"."""
    return next((f"{rows // unit}{letter}" for unit, letter in ((10**6, "m"), (10**3, "k")) if rows % unit == 0), str(rows))


def fill(run, there: int, groups: int) -> int:
    """Copies of the run's first group until it has so many; returns how many it has."""
    from django.db import connection

    began = time.perf_counter()
    origin = run.groups.get(draw_index=0).pk
    experience = run.experiences.filter(group=origin).first().pk
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        while there < groups:
            last = min(groups, there + SLICE)
            for statement in FILL:
                cursor.execute(statement, {"run": run.pk, "first": there, "last": last, "origin": origin, "experience": experience})
            there = last
        for table in LARGE:
            cursor.execute(f"VACUUM ANALYZE {table}")
    print(f"{groups * REPLIES:,} experiences are there; written in {time.perf_counter() - began:.0f} s", flush=True)
    return there


def scans() -> dict[str, int]:
    """How often each of the large tables was read from end to end so far."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname = ANY(%s)", [list(LARGE)])
        return dict(cursor.fetchall())


if __name__ == "__main__":
    main()
