"""The pages for scoring again: the form, the comparison, and how the new rewards are used."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.rewards.models import Rescored, RescoredGroup, Rescoring
from apps.rewards.rescoring.asking import start_rescoring
from apps.rewards.rescoring.choosing import Chosen
from apps.rewards.rescoring.judging import record_rescoring, take_rescoring_groups
from apps.rewards.scorers import Verdict, find_scorer
from apps.rewards.scoring import AnsweredQuestion
from apps.runs.models import Run

HALF = "- {scorer: tone, weight: 0.5}"


def address(name: str, *more: object) -> str:
    return reverse(name, args=["lab", "tone-7", *more])


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def score(run: Run, verdict=None, weight: float = 1.0, **chosen: object) -> Rescoring:
    """Score groups again with `tone` until all are done; `verdict` may replace its verdicts."""
    again = start_rescoring(run, [{"scorer": "tone", "weight": weight}], Chosen(**chosen))
    while taken := take_rescoring_groups("scorer", 60, 1_000):
        questions = taken.questions({})
        record_rescoring(
            taken,
            [
                AnsweredQuestion(
                    q, [verdict(q)] if verdict else find_scorer("tone").judge(q.rollouts, q.task)
                )
                for q in questions
            ],
        )
    again.refresh_from_db()
    return again


def turned(question) -> Verdict:
    return Verdict(
        1 - find_scorer("tone").judge(question.rollouts, question.task)[0].value, "turned round"
    )


def html(client, path: str, **query: object) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_form_starts_with_the_runs_own_scorers(alice_client):
    page = html(alice_client, address("run-rescorings"), from_step=2)
    assert (
        "- scorer: tone" in page
        and 'name="from_step" type="number" min="0" value="2"' in page
        and "None yet" in page
    )


def test_submitting_the_form_redirects_to_the_new_rescoring(alice_client, seeded):
    answer = alice_client.post(address("run-rescorings"), {"rewards": HALF, "to_step": "2"})
    again = Rescoring.objects.get()
    assert answer["Location"] == address("run-rescoring", again.pk)
    assert (again.by, again.plan.rewards[0].weight, again.chosen["to_step"]) == (
        seeded.alice,
        0.5,
        2,
    )
    page = html(alice_client, answer["Location"])
    assert (
        "0 of 8 groups scored · waiting for a scorer for" in page
        and "data-refresh-ms" in page
        and "Stop scoring" in page
    )
    assert "Train on new rewards" not in page


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rewards": "- {scorer: tune}"}, "no scorer &#x27;tune&#x27;"),
        ({"rewards": "tone"}, "must be a list of scorers"),
        ({"rewards": ""}, "must be a list of scorers"),
        ({"rewards": HALF, "from_step": "three"}, "valid integer"),
        ({"rewards": HALF, "from_step": "3", "to_step": "1"}, "is before from_step"),
        ({"rewards": HALF, "from_step": "99"}, "No scored rollouts of tone-7 match"),
        ({"rewards": HALF, "low": "0.5"}, "name the `scorer`"),
    ],
)
def test_invalid_rescoring_form_is_rejected_and_nothing_is_created(alice_client, said, words):
    answer = alice_client.post(address("run-rescorings"), said)
    assert answer.status_code == 422 and words.lower() in answer.content.decode().lower()
    assert not Rescoring.objects.exists()


def test_comparison_lists_the_rollouts_with_the_largest_reward_changes_first(alice_client, seeded):
    again = score(seeded.run, weight=0.5)
    page = html(alice_client, address("run-rescoring", again.pk))
    rows = alice_client.get(address("run-rescoring", again.pk)).context["rows"]
    assert [row.size for row in rows] == sorted((row.size for row in rows), reverse=True) and rows[
        0
    ].fate == "lower"
    assert reverse("rollout", args=[rows[0].rollout_id]) in page and "Train on new rewards" in page
    assert (
        "data-refresh-ms" not in page
        and 'class="spread"' in page
        and 'class="before-after"' in page
    )


def test_comparison_metrics_match_the_rescored_rows(alice_client, seeded):
    again = score(seeded.run, turned)
    found = alice_client.get(address("run-rescoring", again.pk)).context["comparison"]
    rows = list(Rescored.objects.filter(rescoring=again))
    assert found.rollouts == len(rows) and found.changed == sum(row.size > 0 for row in rows)
    assert found.before == pytest.approx(sum(row.before for row in rows) / len(rows))
    assert (
        found.counted
        == sum(row.counted_before != row.counted_after for row in rows)
        < found.changed
    )
    assert sum(bar.count for bar in found.bars) == found.changed and sum(
        cell.count for cell in found.cells
    ) == len(rows)
    assert (
        found.groups["best"]
        == RescoredGroup.objects.filter(rescoring=again, other_best=True).count()
        > 0
    )
    before, after = found.scorers["tone"]
    assert (before.judged, after.judged, before.mean) == (
        len(rows),
        len(rows),
        pytest.approx(found.before),
    )


def test_rescoring_without_changes_says_so(alice_client, seeded):
    page = html(alice_client, address("run-rescoring", score(seeded.run).pk))
    assert "equal the old ones" in page and "None</b>" in page


def test_missing_values_are_counted_with_escaped_reasons(alice_client, seeded):
    again = score(seeded.run, lambda _: Verdict(None, "the judge was <b>away</b>"))
    page = html(alice_client, address("run-rescoring", again.pk), show="lost")
    assert "the judge was &lt;b&gt;away&lt;/b&gt;" in page and "reward lost" in page


@pytest.mark.parametrize("show", ["best", "vanishes", "appears"])
def test_comparison_filters_rows_by_the_change_of_their_group(alice_client, seeded, show):
    again = score(seeded.run, (lambda _: Verdict(0.5, "flat")) if show == "vanishes" else turned)
    answer = alice_client.get(address("run-rescoring", again.pk), {"show": show})
    assert len(answer.context["rows"]) == answer.context["comparison"].groups[show]
    assert (show == "appears") or answer.context["rows"]


def test_comparison_pages_through_rows_by_size_and_back(alice_client, seeded, monkeypatch):
    again = score(seeded.run, weight=0.5)
    everything = list(
        Rescored.objects.filter(rescoring=again, size__gt=0)
        .order_by("-size", "-pk")
        .values_list("pk", flat=True)
    )
    monkeypatch.setattr("apps.dashboard.paging.load_page.__defaults__", (7, "", False, ""))
    path = address("run-rescoring", again.pk)
    seen = []
    query = ""
    while True:
        page = alice_client.get(path + query).context["page"]
        seen += [row.pk for row in page.rows]
        if not page.older:
            break
        query = page.older
    assert seen == everything and len(seen) > 14
    back = alice_client.get(path + page.newer).context["page"]
    assert [row.pk for row in back.rows] == everything[-len(page.rows) - 7 : -len(page.rows)]
    assert alice_client.get(path, {"before": "99999999"}).status_code == 404


def test_queries_do_not_grow_with_the_number_of_rescored_groups(alice_client, seeded):
    def queries(again: Rescoring, **query: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            html(alice_client, address("run-rescoring", again.pk), **query)
        return len(captured)

    few = score(seeded.run, turned, limit=8)
    many = score(seeded.run, turned)
    assert few.groups < many.groups
    for query in ({}, {"show": "best"}):
        assert queries(many, **query) <= queries(few, **query) <= 26


def test_stopping_a_rescoring_records_who_stopped_it(alice_client, seeded):
    again = start_rescoring(seeded.run, [{"scorer": "tone"}], Chosen())
    alice_client.post(address("run-rescoring-stop", again.pk))
    again.refresh_from_db()
    assert (again.state, again.reason) == ("stopped", "stopped by alice")
    assert (
        "Not stopped"
        in alice_client.post(address("run-rescoring-stop", again.pk), follow=True).content.decode()
    )


def test_new_run_can_train_on_the_new_rewards(alice_client, seeded):
    again = score(seeded.run, turned)
    page = html(alice_client, address("run-replay"), rescoring=again.pk)
    assert "Train on new rewards" in page and "tone-7-by-tone" in page
    alice_client.post(address("run-replay"), {"rescoring": again.pk, "slug": "anew", "start": ""})
    made = Run.objects.get(slug="anew")
    assert (
        made.settings.replay.rescoring,
        made.settings.replay.version,
        made.settings.rewards,
    ) == (again.pk, 0, again.choices)
    assert alice_client.get(address("run-replay"), {"rescoring": again.pk + 9}).status_code == 404


def test_comparison_says_why_a_run_cannot_be_replayed(alice_client, seeded):
    again = score(seeded.run)
    Run.objects.filter(pk=seeded.run.pk).update(step=0)
    page = html(alice_client, address("run-rescoring", again.pk))
    assert "has no training step yet" in page and "Train on new rewards" not in page


def test_rollout_page_mentions_its_rescoring(alice_client, seeded):
    again = score(seeded.run, weight=0.5)
    row = Rescored.objects.filter(rescoring=again, size__gt=0).first()
    assert "rescored by tone" in html(alice_client, reverse("rollout", args=[row.rollout_id]))


def test_raters_cannot_see_or_create_rescorings(client, seeded):
    again = score(seeded.run, weight=0.5)
    client.force_login(seeded.bob)
    pages = [("run-rescorings",), ("run-rescoring", again.pk), ("run-rescoring-now", again.pk)]
    assert {client.get(address(*page)).status_code for page in pages} == {403}
    assert client.post(address("run-rescorings"), {"rewards": HALF}).status_code == 403
    row = Rescored.objects.filter(rescoring=again, size__gt=0).first()
    page = html(client, reverse("rollout", args=[row.rollout_id]))
    assert "rescored" not in page and "Rescore" not in html(client, address("rollouts"))
    client.force_login(seeded.carol)
    assert {client.get(address(*page)).status_code for page in pages} == {404}
