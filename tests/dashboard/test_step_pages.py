"""Why a curve moved: the page of a step, and the same content in the drawer beside the charts."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.alerts.models import Alert
from apps.buffer.models import Experience, StepItem
from apps.dashboard.step_metrics import metrics_of_step
from apps.dashboard.step_report import build_step_report
from apps.dashboard.step_rollouts import (
    Batch,
    BatchRow,
    batch_of_step,
    previous_attempts,
    rollouts_of_step,
)
from apps.rollouts.models import Group
from apps.runs.models import Metric, Run
from tests.dashboard.growing import grow_rollouts

HERE = ["lab", "tone-7"]


@pytest.fixture
def step(seeded):
    return seeded.run.steps.get(number=2)


@pytest.fixture
def look(client, seeded):
    client.force_login(seeded.alice)

    def get(name: str, *more: object, **query: object):
        return client.get(reverse(name, args=[*HERE, *more]), query)

    return get


def between(run: Run, number: int):
    """Return a moment between the commits of the previous step and this one."""
    moments = dict(run.steps.values_list("number", "committed_at"))
    return moments[number - 1] + (moments[number] - moments[number - 1]) / 2


def test_best_and_worst_rollouts_of_a_batch_have_the_highest_and_lowest_rewards(seeded, step):
    batch = batch_of_step(step)
    shown = rollouts_of_step(seeded.run, batch, seeded.alice)
    rewards = sorted(
        StepItem.objects.filter(step=step).values_list("experience__reward", flat=True)
    )
    assert [row["reward"] for row in shown.best] == rewards[::-1][:3]
    assert [row["reward"] for row in shown.worst] == rewards[:3]


def test_rollouts_that_differ_most_from_the_previous_attempt_are_shown(seeded):
    run = seeded.run
    drawn = run.groups.filter(experiences__kind=Experience.Kind.USUAL).distinct()
    first, second = drawn.order_by("draw_index")[:2]
    Group.objects.filter(pk=second.pk).update(task=first.task)
    Experience.objects.filter(group=first).update(reward=0.25)
    earlier = previous_attempts(run, [first.pk, second.pk])
    assert earlier.keys() == {second.pk}
    assert (earlier[second.pk].group, earlier[second.pk].mean) == (first.pk, 0.25)
    one, other = second.rollouts.order_by("pk")[:2]
    rows = [BatchRow(one.pk, second.pk, 0.3, 0), BatchRow(other.pk, second.pk, 0.9, 0)]
    [changed] = rollouts_of_step(run, Batch(rows), seeded.alice).changed
    assert changed["rollout"] == other and changed["change"] == pytest.approx(0.65)


def test_previous_attempt_that_was_dropped_counts_with_its_rewards(seeded):
    run = seeded.run
    first, second = (
        run.groups.filter(experiences__isnull=False).distinct().order_by("draw_index")[:2]
    )
    Group.objects.filter(pk=second.pk).update(task=first.task)
    Experience.objects.filter(group=first).delete()
    means = previous_attempts(run, [second.pk])
    assert 0 <= means[second.pk].mean <= 1


def test_metric_far_from_the_previous_steps_is_unusual(seeded):
    run = seeded.run
    Metric.objects.filter(run=run).delete()
    values = [0.5, 0.6, 0.4, 0.5, 0.6, 0.4, 0.5, 0.6, 0.4, 5.0]
    Metric.objects.bulk_create(
        Metric(run=run, step=n, name="grad_norm", value=value)
        for n, value in enumerate(values, start=1)
    )
    usual, odd = metrics_of_step(run, 9), metrics_of_step(run, 10)
    assert usual.unusual == []
    [metric] = odd.unusual
    assert (metric.name, metric.before, metric.change) == ("grad_norm", 0.4, pytest.approx(4.6))


def test_first_step_shows_no_previous_step(look):
    html = look("run-step", 1).content.decode()
    assert 'data-part-of-step="metrics"' in html and 'rel="prev"' not in html


def test_changes_alerts_and_drops_are_listed_at_the_following_step(look, seeded):
    run = seeded.run
    moment = between(run, 2)
    wider = run.settings.max_staleness + 1
    run.change_config(seeded.alice, reason="try", max_staleness=wider)
    run.topic.events.filter(kind="config_changed").update(at=moment)
    Alert.objects.filter(run=run).delete()
    Alert.objects.create(
        run=run,
        rule="no_progress",
        words="Nothing moves.",
        todo="Look.",
        since=moment,
        opened_at=moment,
        closed_at=moment,
        closed_for="it moves",
    )
    group = run.groups.filter(state=Group.State.WAITING).first()
    Group.objects.filter(pk=group.pk).update(
        state=Group.State.DROPPED, reason="too alike", closed_at=moment
    )
    second = build_step_report(run, run.steps.get(number=2), seeded.alice, True)
    third = build_step_report(run, run.steps.get(number=3), seeded.alice, True)
    [change] = second.changes
    assert (change.by, change.reason) == ("alice", "try")
    assert [one.address for one in change.fields] == ["max_staleness"]
    assert [alert.words for alert in second.alerts] == ["Nothing moves."]
    assert ("too alike", 1, group.pk) in second.dropped.reasons
    assert third.changes == [] and third.alerts == []
    assert "too alike" not in [reason for reason, _, _ in third.dropped.reasons]
    assert "max_staleness" in look("run-step", 2).content.decode()


def test_ratings_of_the_batch_are_counted_by_people_and_simulated(seeded, step):
    ratings = build_step_report(seeded.run, step, seeded.alice, True).ratings
    assert ratings.people + ratings.simulated > 0
    assert len(ratings.newest) == min(5, ratings.people)


def test_step_page_links_to_the_weight_version_it_produced(look):
    html = look("run-step", 2).content.decode()
    assert reverse("run-weight", args=[*HERE, 2]) in html


def test_drawer_contains_the_parts_of_the_page_without_its_frame(look):
    page = look("run-step", 2).content.decode()
    drawer = look("run-step-drawer", 2).content.decode()
    parts = re.findall(r"<[^>]*data-part-of-step[^>]*>", page)
    assert parts and all(part in drawer for part in parts)
    assert "<html" in page and "<html" not in drawer


@pytest.mark.parametrize("number", [0, 4, 2**40])
def test_step_that_does_not_exist_returns_404(look, number):
    assert look("run-step", number).status_code == 404


def test_steps_address_redirects_to_the_newest_or_the_given_step(look):
    assert look("run-steps")["Location"] == reverse("run-step", args=[*HERE, 3])
    assert look("run-steps", number=1)["Location"] == reverse("run-step", args=[*HERE, 1])


@pytest.mark.parametrize("number", ["4", "0", "one", "1e9"])
def test_invalid_step_number_is_rejected_with_the_valid_range(client, look, number):
    answer = client.get(look("run-steps", number=number)["Location"])
    assert "from 1 to 3" in answer.content.decode()


def test_blind_rater_sees_no_details_of_a_step(client, seeded):
    client.force_login(seeded.bob)
    for name in ("run-step", "run-step-drawer"):
        html = client.get(reverse(name, args=[*HERE, 2])).content.decode()
        assert "data-part-of-step" not in html and "You rate this run blind" in html


def test_queries_do_not_grow_with_rollouts_and_dropped_groups(client, seeded):
    client.force_login(seeded.alice)
    address = reverse("run-step", args=[*HERE, 2])

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        return len(captured)

    queries()  # fills caches
    few = queries()
    grow_rollouts(seeded.run, 300)
    moment = between(seeded.run, 2)
    seeded.run.groups.filter(state=Group.State.WAITING).update(
        state=Group.State.DROPPED, reason="many", closed_at=moment
    )
    assert queries() <= few <= 40
