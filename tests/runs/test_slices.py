"""What cannot be set aside, or would mean nothing, is refused by field when the run is made."""

import pytest

from apps.runs.config import ConfigError


def problem(plan, field: str, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(**changes)
    return caught.value.problems[field]


def test_answers_are_said_to_their_end_and_learned_from_as_a_whole_unless_told_otherwise(plan):
    assert (plan().sampling.slice_tokens, plan().sampling.older_segments) == (None, "learn")
    assert (
        plan(sampling={"slice_tokens": 2048, "older_segments": "leave_out"}).sampling.slice_tokens
        == 2048
    )


def test_a_slice_of_hardly_any_tokens_is_refused(plan):
    assert "8" in problem(plan, "sampling.slice_tokens", sampling={"slice_tokens": 7})


def test_episodes_are_not_set_aside(plan):
    words = problem(
        plan,
        "sampling.slice_tokens",
        sampling={"slice_tokens": 64},
        environment={"name": "guess_number"},
        rewards=[],
    )
    assert "remove it" in words


def test_a_run_that_samples_nothing_has_no_slices_and_one_that_learns_from_lessons_no_segments(
    plan,
):
    sampling = {"slice_tokens": 64, "older_segments": "leave_out"}
    changes = {"algorithm": {"name": "sft"}, "rewards": [], "sampling": sampling}
    assert "samples nothing" in problem(plan, "sampling.slice_tokens", **changes)
    assert "lessons" in problem(plan, "sampling.older_segments", **changes)
