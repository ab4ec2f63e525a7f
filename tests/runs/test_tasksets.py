"""A run draws from one taskset or from several with their shares; what it cannot do is refused by
field when it is made.
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


def test_a_run_keeps_its_tasksets_with_their_shares(mixed, sets):
    assert mixed.taskset is None and mixed.tasksets == sets
    assert [(one.taskset.slug, one.share) for one in mixed.shared] == [("large", 2), ("small", 1)]
    assert (
        mixed.tasks.count() == 10 and mixed.asks_of == "large + small" and mixed.share_of == SHARES
    )


def test_a_run_of_one_taskset_has_it_alone(run, taskset):
    assert (
        run.tasksets == [taskset]
        and not run.shares.exists()
        and run.share_of == {"sort": 1}
        and run.tasks.count() == 4
    )


def test_the_runs_of_a_taskset_are_those_that_draw_from_it_alone_or_beside_others(
    mixed, run, sets, taskset
):
    assert (
        list(Run.objects.drawing_from(sets[0]))
        == list(Run.objects.drawing_from(sets[1]))
        == [mixed]
    )
    assert list(Run.objects.drawing_from(taskset)) == [run]


def test_the_shares_are_written_and_read_as_yaml(plan):
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
def test_what_a_run_cannot_draw_is_refused_by_field(plan, changes, field, words):
    assert words in refused(plan, **changes)[field]


def test_a_run_that_draws_nothing_shares_no_draws(plan):
    lessons = {
        "algorithm": {"name": "sft"},
        "snapshot": {"source": "demonstrations"},
        "rewards": [],
    }
    assert "samples none" in refused(plan, taskset=None, tasksets=SHARES, **lessons)["tasksets"]


def test_a_taskset_that_is_not_there_or_grows_is_named(project, plan, policy, sets):
    grown_from_nothing(project, "asked")
    problems = not_made(project, plan, tasksets={"large": 1, "none": 1, "asked": 1})
    assert (
        "no taskset 'none'" in problems["tasksets.none"]
        and "grows with the prompts of callers" in problems["tasksets.asked"]
    )
    assert set(problems) == {"tasksets.none", "tasksets.asked"}


def test_a_number_that_the_tasks_of_one_set_lack_is_told_with_the_set(project, plan, policy, sets):
    sets[1].tasks.filter(index=2).update(meta={})
    problems = not_made(
        project, plan, tasksets=SHARES, selection={"name": "easy_to_hard", "by": "level"}
    )
    assert "1 of 3 tasks of 'small' have no number 'level'" in problems["selection.by"]


def test_pictures_in_one_of_the_sets_are_refused_for_a_policy_of_text(project, plan, policy, sets):
    type(sets[1]).objects.filter(pk=sets[1].pk).update(shows_pictures=True)
    assert "tasks of 'small' show pictures" in not_made(project, plan, tasksets=SHARES)["policy"]


def test_a_domain_of_any_of_the_sets_that_nobody_judges_is_refused(project, plan, sets):
    sets[0].tasks.update(domain="math")
    sets[1].tasks.update(domain="code")
    judged = plan(taskset=None, tasksets=SHARES, rewards=[{"scorer": "sort", "domains": ["math"]}])
    with pytest.raises(ConfigError) as problem:
        require_known_scorers(judged, project)
    assert "no scorer covers tasks of domain code" in problem.value.problems["rewards"]


def test_the_tasksets_are_fixed_with_the_run(project, plan, policy, sets):
    made = Run.create(
        project=project, slug="mixed", title="Mixed", plan=plan(taskset=None, tasksets=SHARES)
    )
    with pytest.raises(ConfigError) as problem:
        made.change_config(None, tasksets={"large": 1, "small": 1})
    assert "fixed when a run is created" in problem.value.problems["tasksets.large"]


def test_experts_answers_to_tasks_of_each_set_are_learned_from(mixed, sets, taskset):
    large, small, _ = (demonstrate(one) for one in (*sets, taskset))
    assert list(list_unadmitted_demonstrations(mixed)) == [*large, *small]


def test_tasks_are_left_out_until_one_of_all_is_left(mixed, sets, alice):
    small, large = (set(one.tasks.values_list("pk", flat=True)) for one in reversed(sets))
    assert _leave_out(mixed, small, "guessed", alice) == 3
    with pytest.raises(NotPossible, match=r"exclude all tasks of large \+ small"):
        _leave_out(mixed, large, "guessed", alice)


def test_a_replay_of_several_sets_leaves_out_people_but_no_number(mixed, alice):
    assert LeftOut.of(mixed, ["alice"], []).raters == {alice.pk}
    with pytest.raises(LookupError, match="a number alone doesn’t identify a task"):
        LeftOut.of(mixed, [], [1])


def test_what_prompts_are_about_is_read_in_every_set(mixed, sets):
    assert mixed.taskset_ids == tuple(one.pk for one in sets)
    sets[0].tasks.filter(index=3).update(prompt=[{"role": "user", "content": "of whales"}])
    sets[1].tasks.filter(index=2).update(prompt=[{"role": "user", "content": "of bees"}])
    assert {"whales", "bees"} <= learn_topics(mixed.taskset_ids).words
