"""The page about the calibration of scorers: its access, its content, and the targets of a
scorer.
"""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.dashboard.calibration import AT_ONCE, list_leanings
from apps.feedback.calibration.making import write_calibrations
from apps.feedback.calibration.watching import watch_alarms
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task
from tests.feedback.calibration.judging import both_judge

pytestmark = pytest.mark.django_db
NAMES = ("run-calibration", "run-calibration-now", "run-calibration-json")
MIXED = [(1.0, 5), (0.0, 1), (1.0, 1), (0.0, 1), (1.0, 4), (0.0, 2)]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def judged(new_run, bob):
    """Create a run with forty-eight replies judged by scorer and rater, and one scorer without
    rewards.
    """
    run = new_run(
        rewards=[{"scorer": "sort"}, {"scorer": "format"}],
        people={"per_group": 2, "deadline_s": 600},
    )
    both_judge(run, bob, MIXED * 8, tokens=(5, 9, 40, 80))
    write_calibrations(run)
    return run


def address(run, name="run-calibration"):
    return reverse(name, args=[run.project.slug, run.slug])


def page(client, user, run, query="", name="run-calibration"):
    client.force_login(user)
    answer = client.get(address(run, name) + query)
    return answer.status_code, answer.content.decode()


def test_each_scorer_is_shown_with_metrics_biases_and_diagram(client, judged, alice):
    status, text = page(client, alice, judged)
    assert status == 200 and not re.search(
        r"\b(NaN|None)\b", text.split("<main")[1]
    )  # letters within a form's token do not count
    for words in (
        "48 labels",
        "83 %",
        "good agreement",
        "higher than people",
        "the scorer sees one reply at a time",
        "<circle",
        "Reliability of sort, all tasks",
        "Largest disagreements",
        "unknown",
        "needs 10 labels",
    ):
        assert words in text, words


def test_page_refreshes_with_its_query_while_labels_arrive(client, new_run, bob, alice):
    run = new_run(rewards=[{"scorer": "sort"}], people={"per_group": 2, "deadline_s": 600})
    _, before = page(client, alice, run, "?scorer=sort&from=0")
    now = address(run, "run-calibration-now")
    assert f'data-refresh-ms="5000" hx-get="{now}?scorer=sort&amp;from=0"' in before
    assert "No ratings yet" in before
    both_judge(run, bob, MIXED * 2)
    write_calibrations(run)
    status, part = page(client, alice, run, "?scorer=sort&from=0", "run-calibration-now")
    assert (
        status == 200
        and "12 labels" in part
        and "No ratings yet" not in part
        and "<html" not in part
    )
    whole = page(client, alice, run, "?scorer=sort&from=0")[1]
    assert part.count("<tr") == whole.count("<tr") > 2  # the same part


def test_page_with_a_refused_form_does_not_refresh(client, judged, alice):
    client.force_login(alice)
    answer = client.post(
        address(judged), {"scorer": "sort", "trust0.accuracy": "2", "trust0.min_labels": "20"}
    )
    assert answer.status_code == 422 and "data-refresh-ms" not in answer.content.decode()


def test_page_without_scorers_does_not_refresh(client, new_run, alice):
    run = new_run(rewards=[], people={"per_group": 2, "at_deadline": "drop"})
    assert "data-refresh-ms" not in page(client, alice, run)[1]


@pytest.mark.parametrize("query", ["?scorer=none", "?from=x", "?from=-1"])
def test_part_for_an_invalid_query_is_404(client, judged, alice, query):
    assert page(client, alice, judged, query, "run-calibration-now")[0] == 404


@pytest.mark.parametrize("name", NAMES)
def test_raters_and_viewers_cannot_open_the_page(client, judged, bob, carol, project, name):
    viewer = User.objects.create(username="vera")
    Membership.objects.create(project=project, user=viewer, role=Membership.Role.VIEWER)
    assert [page(client, user, judged, name=name)[0] for user in (bob, viewer, carol)] == [
        403,
        403,
        404,
    ]


def test_metrics_are_available_as_json(client, judged, alice):
    client.force_login(alice)
    found = client.get(address(judged, "run-calibration-json")).json()["scorers"]
    assert [(one["scorer"], one["domain"], one["alarm"], one["trust"]) for one in found] == [
        ("format", None, None, None),
        ("sort", None, None, None),
    ]
    assert found[1]["metrics"]["accuracy"]["value"] == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "No ratings yet"),
        (
            {"rewards": [], "people": {"per_group": 2, "at_deadline": "drop"}},
            "This run has no scorer",
        ),
    ],
)
def test_run_without_labels_or_scorers_is_reported(client, new_run, alice, changes, words):
    status, text = page(client, alice, new_run(**changes))
    assert status == 200 and words in text


def test_domains_are_shown_side_by_side(client, run, bob, alice):
    task = Task.objects.order_by("index").first()
    Task.objects.filter(pk=task.pk).update(domain="math")
    both_judge(run, bob, MIXED * 16)
    write_calibrations(run)
    _, text = page(client, alice, run)
    assert (
        "<td>math</td>" in text
        and "<td>no domain</td>" in text
        and "Reliability of sort, math" in text
    )


def test_disagreements_are_sorted_by_size_and_paged(client, run, bob, alice):
    both_judge(run, bob, [(1.0, 1)] * (AT_ONCE + 3) + [(1.0, 2)] * 2)
    write_calibrations(run)
    _, first = page(client, alice, run)
    _, second = page(client, alice, run, f"?from={AT_ONCE}")
    assert (
        first.count('<tr class="open">') == AT_ONCE
        and "30 replies" in first
        and f"from={AT_ONCE}" in first
    )
    assert second.count('<tr class="open">') == 5 and second.index(">1.00<") < second.index(
        ">0.75<"
    )
    assert page(client, alice, run, "?from=900")[0] == 200


def test_disagreements_are_filtered_by_scorer(client, judged, alice):
    assert page(client, alice, judged, "?scorer=sort")[1].count('<tr class="open">') > 0
    assert page(client, alice, judged, "?scorer=format")[1].count('<tr class="open">') == 0
    assert [
        page(client, alice, judged, query)[0] for query in ("?scorer=nobody", "?from=x", "?from=-1")
    ] == [404] * 3


def test_alarm_is_shown_on_the_run_and_this_page_until_it_ends(client, new_run, bob, alice):
    run = new_run(
        rewards=[{"scorer": "sort", "trust": {"accuracy": 0.9}}],
        people={"per_group": 2, "blind": True},
    )
    both_judge(run, bob, MIXED * 8)
    write_calibrations(run)
    watch_alarms()
    words = "Scorer sort misses its target: accuracy 0.83"
    front = reverse("run", args=["lab", run.slug])
    client.force_login(alice)
    assert (
        words in client.get(front).content.decode()
        and words in client.get(address(run)).content.decode()
    )
    assert "below target" in client.get(address(run)).content.decode()
    client.force_login(bob)
    assert words not in client.get(front).content.decode(), (
        "a blind rater must not see how scorers judge"
    )
    client.force_login(alice)
    run.change_config(alice, rewards=[{"scorer": "sort", "trust": {"accuracy": 0.5}}])
    watch_alarms()
    assert (
        words not in client.get(front).content.decode()
        and "on target" in client.get(address(run)).content.decode()
    )


def trust_of(run):
    return Run.objects.get(pk=run.pk).settings.rewards[0].trust


def test_owner_sets_and_removes_the_targets_of_a_scorer(client, judged, alice):
    client.force_login(alice)
    asked = {
        "scorer": "sort",
        "trust0.accuracy": "0.8",
        "trust0.kappa": "",
        "trust0.order": "",
        "trust0.min_labels": "30",
    }
    assert client.post(address(judged), asked).status_code == 302
    assert (trust_of(judged).accuracy, trust_of(judged).kappa, trust_of(judged).min_labels) == (
        0.8,
        None,
        30,
    )
    assert judged.topic.events.filter(kind="config_changed").last().payload["by"] == "alice"
    assert "from 30 labels on" in page(client, alice, judged)[1]
    assert client.post(address(judged), {**asked, "trust0.accuracy": ""}).status_code == 302
    assert trust_of(judged) is None


@pytest.mark.parametrize(
    ("field", "said", "words"),
    [("accuracy", "2", "less than or equal to 1"), ("min_labels", "x", "valid integer")],
)
def test_invalid_target_is_refused_at_its_field(client, judged, alice, field, said, words):
    client.force_login(alice)
    asked = {
        "scorer": "sort",
        "trust0.accuracy": "0.8",
        "trust0.min_labels": "20",
        f"trust0.{field}": said,
    }
    answer = client.post(address(judged), asked)
    assert (
        answer.status_code == 422
        and words in answer.content.decode()
        and f'value="{said}"' in answer.content.decode()
    )
    assert trust_of(judged) is None


def test_target_for_an_ended_run_or_unknown_scorer_is_refused(client, judged, alice):
    client.force_login(alice)
    asked = {"scorer": "sort", "trust0.accuracy": "0.8", "trust0.min_labels": "20"}
    assert client.post(address(judged), {**asked, "scorer": "nobody"}).status_code == 404
    judged.stop()
    answer = client.post(address(judged), asked)
    assert answer.status_code == 422 and "create another run" in answer.content.decode()


def test_hostile_replies_are_escaped(client, judged, alice):
    Rollout.objects.update(text=HOSTILE)
    _, text = page(client, alice, judged)
    assert HOSTILE not in text and "&lt;script&gt;alert" in text


def test_biases_are_described_in_plain_words():
    known = {"value": 0.12, "low": 0.05, "high": 0.19, "of": 40, "why": ""}
    unknown = {"value": None, "low": None, "high": None, "of": 0, "why": "needs 10 votes, has 0"}
    told = list_leanings(
        {
            "shift": {**known, "value": -0.12, "low": -0.19, "high": -0.05},
            "doubling": known,
            "longer": unknown,
            "first": {**known, "value": 0.62, "low": 0.55, "high": 0.7},
            "earlier": unknown,
        }
    )
    assert [one.words for one in told] == [
        "lower than people: −0.12 (−0.19 to −0.05)",
        "prefers long replies: +0.12 (+0.05 to +0.19) per doubling of the length",
        "chose the first of two 62 % of the time (55 % to 70 %); without bias: 50 %",
    ]
    assert all(one.is_marked for one in told)


def test_number_of_queries_does_not_grow_with_labels(client, new_run, bob, alice):
    def queries(times):
        run = new_run()
        both_judge(run, bob, MIXED * times)
        write_calibrations(run)
        client.force_login(alice)
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address(run)).status_code == 200
        return len(captured)

    queries(1)
    assert queries(2) == queries(40) <= 11
