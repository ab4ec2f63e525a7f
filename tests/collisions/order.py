"""The order in which transactions lock tables, as documented and as observed."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.transaction import Atomic

# docs/operations.md, "Lock order". A transaction may leave tables out, but never goes back.
ORDER = (
    ("feedback_suspicion", "rewards_rescoring"),
    ("rollouts_group",),
    ("environments_episode",),
    ("environments_environment",),
    ("feedback_slot", "feedback_item", "feedback_rating", "rewards_reward"),
    ("rollouts_rollout", "rollouts_partialrollout"),
    ("runs_run",),
    (
        "alerts_alert",
        "buffer_experience",
        "buffer_offspring",
        "runs_trainstep",
        "feedback_calibration",
        "rollouts_failedgroup",
        "rollouts_leftout",
        "rollouts_rolloutpayload",
        "rollouts_taskrecord",
        "runs_usage",
        "runs_weightversion",
        "tasksets_taskset",
    ),
    ("streaming_topic",),
)
RANK = {table: rank for rank, tables in enumerate(ORDER) for table in tables}

NAME = r'"?(\w+)"?'
LOCKS = re.compile(r"\bFOR (?:NO KEY )?UPDATE(?: OF ([\w\", ]+?))?\s*(?:SKIP|NOWAIT|\)|$)")
READS = re.compile(rf"\b(?:FROM|JOIN)\s+{NAME}(?:\s+(?:AS\s+)?(\w+))?")
WRITES = re.compile(rf"\b(?<!NO KEY )(?<!DO )(?:UPDATE|DELETE FROM)\s+{NAME}")
INSERTS = re.compile(rf"\bINSERT INTO\s+{NAME}")
UPSERTS = re.compile(rf"\bINSERT INTO\s+{NAME}[^;]*?\bDO UPDATE\b", re.S)


def tables_locked_by(sql: str) -> set[str]:
    """Return the tables in which this statement locks rows that others can see."""
    found = {*WRITES.findall(sql), *UPSERTS.findall(sql)}
    names = {alias or table: table for table, alias in READS.findall(sql)}
    names |= {table: table for table, _ in READS.findall(sql)}
    for of in LOCKS.findall(sql):
        locked = [name.strip(' "') for name in of.split(",")] if of else [READS.findall(sql)[0][0]]
        found |= {names.get(name, name) for name in locked}
    return found & RANK.keys()


class Watch(threading.local):
    """The locks of this thread's transaction so far, and those that were out of order."""

    depth = 0

    def __init__(self) -> None:
        self.held: list[str] = []
        self.own: set[str] = set()  # tables with own new rows, which nobody else sees
        self.wrong: list[tuple[str, str, str]] = []

    def __call__(self, execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if self.depth and context["cursor"].rowcount:
            self._note(tables_locked_by(str(sql)), str(sql))
        return result

    def _note(self, tables: set[str], sql: str) -> None:
        for table in tables - self.own - set(self.held):
            later = [held for held in self.held if RANK[held] > RANK[table]]
            self.wrong += [(held, table, sql[:300]) for held in later]
        self.held += sorted(tables)
        self.own.update(INSERTS.findall(sql))


@contextmanager
def watched(monkeypatch) -> Iterator[Watch]:
    """Watch the transactions of this thread's connection."""
    watch = Watch()
    enter = Atomic.__enter__
    leave = Atomic.__exit__

    def begin(self):
        enter(self)
        watch.depth += 1

    def end(self, *error):
        watch.depth -= 1
        if not watch.depth:
            watch.held.clear()
            watch.own.clear()
        return leave(self, *error)

    monkeypatch.setattr(Atomic, "__enter__", begin)
    monkeypatch.setattr(Atomic, "__exit__", end)
    with connection.execute_wrapper(watch):
        yield watch
