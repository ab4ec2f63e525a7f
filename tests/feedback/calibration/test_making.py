"""Which ratings become labels, and that a run's metrics compare labels with the scorer's values for
the same replies.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.feedback import rater_quality
from apps.feedback.calibration.labels import load_newest_labels
from apps.feedback.calibration.making import write_calibrations
from apps.feedback.models import Calibration, Item
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.tasksets.models import Task
from tests.feedback.calibration.judging import both_judge, said_by
from tests.feedback.quality.deciding import rater

pytestmark = pytest.mark.django_db
AGREED = [(1.0, 5), (0.0, 1)] * 8


@pytest.fixture(autouse=True)
def forget():
    rater_quality.clear_quality_cache()


def metrics(run, scorer="sort", domain=None):
    return Calibration.objects.get(run=run, scorer=scorer, domain=domain).metrics


def values(run):
    return {label.rollout: label.value for label in load_newest_labels(run)}


def test_labels_and_scorer_values_of_the_same_replies_become_metrics(run, bob):
    both_judge(run, bob, [*AGREED, (1.0, 1), (1.0, 1), (0.5, 3), (0.25, 5)])
    assert write_calibrations(run)
    found = metrics(run)
    assert (found["labels"], found["undecided"]) == (20, 1)
    assert found["accuracy"]["value"] == pytest.approx(16 / 19)


def test_ratings_by_several_people_are_combined_as_the_run_configures(run, bob, project):
    [one, _] = both_judge(run, bob, [(1.0, 5), (0.0, 1)])
    said_by(rater(project, "ann"), one, run, 3)
    assert values(run)[one] == 0.75


def test_late_ratings_are_labels_and_withdrawn_ratings_are_not(run, bob):
    late, gone = both_judge(run, bob, [(1.0, 5), (0.0, 1)])
    run.ratings.filter(rollout=late).update(is_late=True)
    run.ratings.filter(rollout=gone).update(is_withdrawn=True)
    assert set(values(run)) == {late}


def test_answers_to_gold_items_and_attention_checks_are_not_labels(run, bob):
    rollouts = both_judge(run, bob, AGREED[:3])
    for rollout, purpose in zip(rollouts, ("gold", "attention", "repeat"), strict=True):
        group = Rollout.objects.get(pk=rollout).group
        item = Item.objects.create(
            run=run,
            group=group,
            form="stars",
            purpose=purpose,
            members=[rollout],
            expected={"stars": 1},
        )
        run.ratings.filter(rollout=rollout).update(item=item)
    assert set(values(run)) == {rollouts[2]}


def test_a_flagged_reply_has_no_label(run, bob, project):
    flagged, whole = both_judge(run, bob, AGREED[:2])
    word = said_by(rater(project, "ann"), flagged, run, 5)
    type(word).objects.filter(pk=word.pk).update(form="flag", answer={"reason": "cut off"})
    assert set(values(run)) == {whole}


def test_adjudicating_rating_is_the_label(run, bob, project):
    from apps.feedback.models import Adjudication

    [rollout] = both_judge(run, bob, AGREED[:1])
    item = Item.objects.create(
        run=run, group=Rollout.objects.get(pk=rollout).group, form="stars", members=[rollout]
    )
    run.ratings.filter(rollout=rollout).update(item=item)
    word = said_by(rater(project, "ann"), rollout, run, 2, item=item)
    Adjudication.objects.create(item=item, rating=word)
    assert values(run) == {rollout: 0.25}


def test_simulated_ratings_are_not_labels(run, bob):
    """Compare the labels with a count, rating by rating, of what people gave."""
    robot = User.objects.create(username="robot", is_simulated=True)
    both_judge(run, robot, AGREED)
    for rollout in both_judge(run, bob, AGREED[:6])[:3]:
        said_by(robot, rollout, run, 1)
    counted = {}
    for rating in run.ratings.select_related("rater"):
        if not rating.rater.is_simulated:
            counted[rating.rollout_id] = (rating.answer["stars"] - 1) / 4
    assert values(run) == counted and len(counted) == 6
    write_calibrations(run)
    assert metrics(run)["labels"] == 6


def test_value_is_scaled_to_the_scorers_range(new_run, bob):
    run = new_run(
        rewards=[{"scorer": "overlong", "options": {"max_tokens": 64, "cache_tokens": 16}}]
    )
    both_judge(run, bob, [(0.0, 5), (-1.0, 1)] * 6, scorer="overlong")
    write_calibrations(run)
    assert metrics(run, "overlong")["accuracy"]["value"] == 1.0
    assert [one["scorer"] for one in metrics(run, "overlong")["bins"]] == [0.0, 1.0]


def test_each_of_several_domains_has_its_own_metrics(run, bob):
    task = Task.objects.order_by("index").first()
    Task.objects.filter(pk=task.pk).update(domain="math")
    both_judge(run, bob, AGREED * 2)
    Rollout.objects.filter(group__task=task)
    write_calibrations(run)
    rows = dict(Calibration.objects.filter(run=run).values_list("domain", "metrics__labels"))
    assert rows == {None: 32, "math": 8, "": 24}


def test_metrics_of_a_domain_without_labels_are_deleted(run, bob):
    task = Task.objects.order_by("index").first()
    Task.objects.filter(pk=task.pk).update(domain="math")
    both_judge(run, bob, AGREED)
    write_calibrations(run)
    Task.objects.filter(pk=task.pk).update(domain="")
    both_judge(run, bob, AGREED[:1])
    write_calibrations(run)
    assert [row.domain for row in Calibration.objects.filter(run=run)] == [None]


def test_values_of_an_older_scorer_version_are_ignored(run, bob):
    old = both_judge(run, bob, [(0.0, 5)] * 12)
    both_judge(run, bob, AGREED)
    Reward.objects.exclude(rollout__in=old).update(version=2)
    write_calibrations(run)
    assert (metrics(run)["labels"], metrics(run)["accuracy"]["value"]) == (16, 1.0)


def test_places_in_the_details_of_a_duel_become_metrics(new_run, bob):
    run = new_run(
        rewards=[
            {"scorer": "duel", "options": {"address": "https://judge.example.org/v1", "model": "m"}}
        ]
    )
    both_judge(run, bob, AGREED, scorer="duel")
    Reward.objects.update(details={"votes": [1.0, 0.0], "places": [1, 2], "among": 2})
    write_calibrations(run)
    assert metrics(run, "duel")["first"]["value"] == 1.0
    assert metrics(run, "duel")["earlier"]["value"] == 1.0


def test_largest_disagreements_come_first(run, bob):
    rollouts = both_judge(run, bob, [(1.0, 5), (1.0, 1), (0.6, 4), (0.5, 5)])
    write_calibrations(run)
    widest = Calibration.objects.get(run=run).widest
    assert widest == [[rollouts[1], 1.0, 0.0], [rollouts[3], 0.5, 1.0], [rollouts[2], 0.6, 0.75]]


def test_scorer_without_labels_reports_how_many_it_needs(new_run, bob):
    run = new_run(rewards=[{"scorer": "sort"}, {"scorer": "format"}])
    both_judge(run, bob, AGREED)
    write_calibrations(run)
    assert (
        metrics(run, "format")["accuracy"]["why"]
        == "needs 10 labels above or below the midpoint, has 0"
    )


def test_queries_do_not_grow_with_labels(new_run, bob):
    def statements(count):
        run = new_run()
        both_judge(run, bob, AGREED * count)
        with CaptureQueriesContext(connection) as captured:
            write_calibrations(run)
        return len(captured)

    assert statements(1) == statements(20) <= 12
