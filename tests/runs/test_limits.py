"""The tighter limit of run and task applies; invalid limits are refused when the run is created."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.limits import read_limits
from apps.runs.models import Run
from apps.tasksets.limits import Limits
from apps.tasksets.models import Task, Taskset


@pytest.fixture
def say(taskset):
    def write(index: int, limits: object) -> None:
        taskset.tasks.filter(index=index).update(meta={"limits": limits})

    return write


def refusal(new_run, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        new_run(**changes)
    return refused.value.problems


def test_tighter_limit_of_run_and_task_applies(plan):
    mine = plan(sampling={"max_tokens": 64, "time_s": 3})
    assert read_limits(mine, {}) == Limits(64, 3.0)
    assert read_limits(mine, {"limits": {"max_tokens": 9, "time_s": 99}}) == Limits(9, 3.0)
    assert read_limits(plan(), {"limits": {"time_s": 7}}) == Limits(64, 7)


@pytest.mark.django_db
def test_invalid_limit_is_refused_with_the_first_task_that_has_it(new_run, say):
    say(1, {"max_tokens": 8})
    say(2, {"max_tokens": 0})
    say(3, "soon")
    assert refusal(new_run) == {
        "taskset": "task 2: meta.limits.max_tokens: must be a whole number, 1 or more, not 0"
    }


@pytest.mark.django_db
def test_invalid_limit_in_one_of_several_tasksets_is_refused_under_that_taskset(
    new_run, project, say
):
    other = Taskset.objects.create(
        project=project, slug="other", title="Other", source="sort", size=1
    )
    Task.objects.create(
        taskset=other,
        index=0,
        prompt=[{"role": "user", "content": "1"}],
        meta={"limits": {"tokens": 8}},
    )
    problems = refusal(new_run, taskset=None, tasksets={"sort": 1, "other": 1})
    assert problems == {
        "tasksets.other": (
            "task 0: meta.limits.tokens: unknown limit; known are max_tokens and time_s"
        )
    }


@pytest.mark.django_db
def test_with_an_environment_tasks_may_limit_tokens_but_not_time(new_run, say):
    environment = {"name": "target_number"}
    say(0, {"max_tokens": 8})
    new_run(environment=environment)
    say(1, {"time_s": 8})
    assert (
        "task 1: meta.limits.time_s limits a reply"
        in refusal(new_run, environment=environment)["taskset"]
    )


@pytest.mark.django_db
def test_environment_cannot_be_set_if_tasks_have_a_time_limit(project, policy, plan, say):
    say(1, {"time_s": 8})
    run = Run.create(project=project, slug="mine", title="Mine", plan=plan())
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, environment={"name": "target_number"})
    assert "task 1: meta.limits.time_s" in refused.value.problems["taskset"]


def test_time_limit_is_refused_for_environments_and_replays(plan):
    for changes in (
        {"environment": {"name": "target_number"}},
        {"replay": {"run": "a", "last_step": 2, "version": 1}},
    ):
        with pytest.raises(ConfigError) as refused:
            plan(sampling={"time_s": 5}, **changes)
        assert "remove it" in refused.value.problems["sampling.time_s"]


@pytest.mark.parametrize("seconds", [0, -1, 86_401, float("nan"), float("inf")])
def test_invalid_time_limit_is_refused(plan, seconds):
    with pytest.raises(ConfigError) as refused:
        plan(sampling={"time_s": seconds})
    assert list(refused.value.problems) == ["sampling.time_s"]


@pytest.mark.django_db
def test_time_limit_may_change_during_a_run(run):
    run.change_config(None, sampling={"time_s": 30})
    assert run.settings.sampling.time_s == 30
