"""A run draws from one taskset or from several by share; invalid choices are refused by field
when the run is created.
"""

import pytest

from apps.feedback.experts import list_unadmitted_demonstrations
from apps.feedback.rater_model.replies import learn_topics
from apps.feedback.suspicions.acting import _leave_out
from apps.lineage.replaying.leaving_out import LeftOut
from apps.rewards.scoring import require_known_scorers
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.runs.parsing import from_yaml, to_yaml
from apps.tasksets.growing import grown_from_nothing
from tests.feedback.teaching import demonstrate
from tests.rollouts.mixed import taskset_of

SHARES = {"large": 2, "small": 1}


@pytest.fixture
def sets(project):
    return [taskset_of(project, "large", 7), taskset_of(project, "small", 3)]


@pytest.fixture
def mixed(new_run, sets) -> Run:
    return new_run(taskset=None, tasksets=SHARES)


def refused(plan, **changes) -> dict[str, str]:
    with pytest.raises(ConfigError) as problem:
        plan(**changes)
    return problem.value.problems


def not_made(project, plan, **changes) -> dict[str, str]:
    with pytest.raises(ConfigError) as problem:
        Run.create(project=project, slug="mixed", title="Mixed", plan=plan(taskset=None, **changes))
    return problem.value.problems


def test_run_stores_its_tasksets_with_their_shares(mixed, sets):
    assert mixed.taskset is None and mixed.tasksets == sets
    assert [(one.taskset.slug, one.share) for one in mixed.shared] == [("large", 2), ("small", 1)]
    assert (
        mixed.tasks.count() == 10 and mixed.asks_of == "large + small" and mixed.share_of == SHARES
    )


def test_run_of_one_taskset_has_no_shares(run, taskset):
    assert (
        run.tasksets == [taskset]
        and not run.shares.exists()
        and run.share_of == {"sort": 1}
        and run.tasks.count() == 4
    )


def test_runs_drawing_from_a_taskset_include_those_with_several_tasksets(mixed, run, sets, taskset):
    assert (
        list(Run.objects.drawing_from(sets[0]))
        == list(Run.objects.drawing_from(sets[1]))
        == [mixed]
    )
    assert list(Run.objects.drawing_from(taskset)) == [run]


def test_shares_survive_a_round_trip_through_yaml(plan):
    text = to_yaml(plan(taskset=None, tasksets=SHARES))
    assert "tasksets:\n  large: 2\n  small: 1\n" in text and from_yaml(text).tasksets == SHARES


@pytest.mark.parametrize(
    "changes, field, words",
    [
        ({"taskset": None}, "taskset", "name a taskset to sample from"),
        ({"tasksets": SHARES}, "tasksets", "cannot be combined with `taskset`"),
        ({"taskset": None, "tasksets": {"large": 2}}, "tasksets", "use `taskset: large`"),
        (
            {"taskset": None, "tasksets": {"large": 0, "small": 1}},
            "tasksets.large",
            "greater than or equal to 1",
        ),
        (
            {"taskset": None, "tasksets": {"large": 1, "small": 0.5}},
            "tasksets.small",
            "valid integer",
        ),
        (
            {
                "taskset": None,
                "tasksets": SHARES,
                "selection": {"name": "mixture", "parts": [{"domain": "math"}]},
            },
            "selection.name",
            "divides one taskset by domain",
        ),
    ],
)
def test_invalid_tasksets_are_refused_with_their_field(plan, changes, field, words):
    assert words in refused(plan, **changes)[field]


def test_shares_are_refused_for_a_run_that_samples_nothing(plan):
    lessons = {
        "algorithm": {"name": "sft"},
        "snapshot": {"source": "demonstrations"},
        "rewards": [],
    }
    assert "samples none" in refused(plan, taskset=None, tasksets=SHARES, **lessons)["tasksets"]


def test_missing_and_growing_tasksets_are_refused_by_name(project, plan, policy, sets):
    grown_from_nothing(project, "asked")
    problems = not_made(project, plan, tasksets={"large": 1, "none": 1, "asked": 1})
    assert (
        "no taskset 'none'" in problems["tasksets.none"]
        and "grows with the prompts of callers" in problems["tasksets.asked"]
    )
    assert set(problems) == {"tasksets.none", "tasksets.asked"}


def test_number_missing_from_tasks_is_reported_with_the_taskset(project, plan, policy, sets):
    sets[1].tasks.filter(index=2).update(meta={})
    problems = not_made(
        project, plan, tasksets=SHARES, selection={"name": "easy_to_hard", "scale": "level"}
    )
    assert "1 of 3 tasks of 'small' have no number 'level'" in problems["selection.scale"]


def test_taskset_with_pictures_is_refused_for_a_text_only_policy(project, plan, policy, sets):
    type(sets[1]).objects.filter(pk=sets[1].pk).update(shows_pictures=True)
    assert "tasks of 'small' show pictures" in not_made(project, plan, tasksets=SHARES)["policy"]


def test_domain_without_a_scorer_in_any_taskset_is_refused(project, plan, sets):
    sets[0].tasks.update(domain="math")
    sets[1].tasks.update(domain="code")
    judged = plan(taskset=None, tasksets=SHARES, rewards=[{"scorer": "sort", "domains": ["math"]}])
    with pytest.raises(ConfigError) as problem:
        require_known_scorers(judged, project)
    assert "no scorer covers tasks of domain code" in problem.value.problems["rewards"]


def test_shares_cannot_change_after_the_run_is_created(project, plan, policy, sets):
    made = Run.create(
        project=project, slug="mixed", title="Mixed", plan=plan(taskset=None, tasksets=SHARES)
    )
    with pytest.raises(ConfigError) as problem:
        made.change_config(None, tasksets={"large": 1, "small": 1})
    assert "fixed when a run is created" in problem.value.problems["tasksets.large"]


def test_demonstrations_for_each_taskset_of_the_run_are_used(mixed, sets, taskset):
    large, small, _ = (demonstrate(one) for one in (*sets, taskset))
    assert list(list_unadmitted_demonstrations(mixed)) == [*large, *small]


def test_tasks_of_all_tasksets_but_the_last_task_may_be_left_out(mixed, sets, alice):
    small, large = (set(one.tasks.values_list("pk", flat=True)) for one in reversed(sets))
    assert _leave_out(mixed, small, "guessed", alice) == 3
    with pytest.raises(NotPossible, match=r"exclude all tasks of large \+ small"):
        _leave_out(mixed, large, "guessed", alice)


def test_replay_of_several_tasksets_can_leave_out_raters_but_no_task_numbers(mixed, alice):
    assert LeftOut.of(mixed, ["alice"], []).raters == {alice.pk}
    with pytest.raises(LookupError, match="a number alone doesn’t identify a task"):
        LeftOut.of(mixed, [], [1])


def test_topics_are_learned_from_every_taskset_of_the_run(mixed, sets):
    assert mixed.taskset_ids == tuple(one.pk for one in sets)
    sets[0].tasks.filter(index=3).update(prompt=[{"role": "user", "content": "of whales"}])
    sets[1].tasks.filter(index=2).update(prompt=[{"role": "user", "content": "of bees"}])
    assert {"whales", "bees"} <= learn_topics(mixed.taskset_ids).words
