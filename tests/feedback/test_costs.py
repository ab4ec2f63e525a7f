"""What a rating costs in the database: few queries, however many items wait, and no scan of a big
table.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from apps.dashboard import human_cost_benefit
from apps.feedback import own_work
from apps.feedback.models import ratings
from apps.feedback.prepared import prepared_cursor
from apps.feedback.quality.decisions import newest_decisions
from apps.feedback.rater_model import history
from tests.feedback.asking import ask
from tests.feedback.many import BIG, a_past, many_items

MAX_CLAIM_QUERIES = 4
MAX_SUBMIT_QUERIES = 5  # of the whole request: the session and the person are among them
SOME = 10
FEW = 100
MANY = 6_000
Statement = tuple[str, object]
ENDS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")


@pytest.fixture
def waiting(new_run, finish, bob) -> Callable:
    """Return `waiting(size)`, which creates a run with that many waiting items and half as many
    earlier ratings and skips by bob.
    """

    def make(size: int, **people: object):
        run = new_run(people={"per_group": 2, "deadline_s": 3600, **people})
        [group] = ask(run, finish)
        many_items(run, group, size)
        a_past(run, bob.pk, size // 2)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        return run

    return make


def statements(act: Callable[[], object]) -> tuple[list[Statement], object]:
    """Return the statements that `act` executes, each with its values, and its result."""
    asked: list[Statement] = []

    def note(execute, sql, values, many, context):
        asked.append((sql, values))
        return execute(sql, values, many, context)

    with connection.execute_wrapper(note):
        answer = act()
    return [
        (sql, values) for sql, values in asked if not sql.strip().upper().startswith(ENDS)
    ], answer


def next_item(client, run) -> tuple[list[Statement], dict[str, int]]:
    asked, answer = statements(lambda: client.post(f"/rate/next/?run={run.pk}"))
    assert answer.status_code == 200, answer.content
    html = answer.content.decode()
    return asked, {
        name: int(re.search(rf'data-{name}="(\d+)"', html).group(1))
        for name in ("slot", "fence", "version")
    }


def submit(client, held: dict[str, int], stars: int = 4) -> list[Statement]:
    said = {
        "fence": held["fence"],
        "version": held["version"],
        "client_uuid": str(uuid.uuid4()),
        "form": "stars",
        "answer": {"stars": stars},
        "seconds": 3.5,
        "first_key_ms": 700,
        "changes": 1,
    }
    asked, answer = statements(
        lambda: client.post(f"/rate/slots/{held['slot']}/", said, content_type="application/json")
    )
    assert answer.status_code == 201, answer.content
    return asked


@pytest.mark.parametrize("size", [FEW, MANY])
@pytest.mark.parametrize("rest", [{}, {"gold": {"rate": 0.5}}, {"overlap": 2}])
def test_claim_and_rating_take_a_limited_number_of_queries_for_any_number_of_items(
    client, waiting, bob, size, rest
):
    run = waiting(size, **rest)
    client.force_login(bob)
    for _ in range(4):
        claimed, held = next_item(client, run)
        decided = submit(client, held)
        assert len(claimed) <= MAX_CLAIM_QUERIES, claimed
        assert len(decided) <= MAX_SUBMIT_QUERIES, decided


def test_rating_never_scans_a_big_table(client, waiting, bob):
    run = waiting(MANY)
    client.force_login(bob)
    claimed, held = next_item(client, run)
    asked = [*claimed, *submit(client, held)]
    assert len(asked) >= 6
    assert list(wholes(asked)) == []


def test_rating_counts_on_pages_never_scan_a_big_table(waiting, bob, monkeypatch):
    run = waiting(MANY)
    for module, name in (
        (own_work, "NEWEST"),
        (ratings, "MAX_COUNTED"),
        (history, "MAX_COUNTED"),
    ):
        monkeypatch.setattr(module, name, SOME)
    asked, (today, shaped, counts, used, time) = statements(
        lambda: (
            own_work.load_decisions_today(bob),
            own_work.load_own_effect(bob, run),
            ratings.rating_counts(run.pk),
            history.spent(run),
            human_cost_benefit.bought(run, newest_decisions(run, SOME)),
        )
    )
    assert (
        today.count
        == shaped.ratings
        == counts["looked_at"]
        == counts["people"]
        == used.decisions
        == SOME
    )
    assert not shaped.is_all and not today.is_all and time.accepted == used.filled == 0
    assert list(wholes(asked)) == []


def test_check_detects_a_table_scan(waiting):
    waiting(MANY)
    assert list(
        read_whole(
            plan_of("SELECT count(*) FROM feedback_item WHERE explanation = %s", ["nothing"])
        )
    ) == ["feedback_item"]


def plan_of(sql: str, values: object) -> dict:
    """Return the plan for these values, sent separately as in a prepared statement."""
    with prepared_cursor() as cursor:
        cursor.execute("EXPLAIN (FORMAT JSON) " + sql, values)
        said = cursor.fetchone()[0]
    return (json.loads(said) if isinstance(said, str) else said)[0]["Plan"]


def wholes(asked: list[Statement]) -> Iterator[str]:
    """Yield the plans, as text, of the statements that scan a big table."""
    for sql, values in asked:
        if list(read_whole(plan_of(sql, values))):
            with prepared_cursor() as cursor:
                cursor.execute("EXPLAIN " + sql, values)
                yield "\n".join(line for [line] in cursor.fetchall())


def read_whole(node: dict) -> Iterator[str]:
    """Yield the big tables that a plan scans."""
    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG:
        yield node["Relation Name"]
    for inner in node.get("Plans", ()):
        yield from read_whole(inner)
