"""Slices that are impossible or meaningless are refused by field when the run is created."""

import pytest

from apps.runs.config import ConfigError


def problem(plan, field: str, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(**changes)
    return caught.value.problems[field]


def test_replies_are_not_sliced_and_all_segments_are_trained_by_default(plan):
    assert (plan().sampling.slice_tokens, plan().sampling.older_segments) == (None, "learn")
    assert (
        plan(sampling={"slice_tokens": 2048, "older_segments": "leave_out"}).sampling.slice_tokens
        == 2048
    )


def test_slice_of_too_few_tokens_is_refused(plan):
    assert "8" in problem(plan, "sampling.slice_tokens", sampling={"slice_tokens": 7})


def test_slices_are_refused_for_environments(plan):
    words = problem(
        plan,
        "sampling.slice_tokens",
        sampling={"slice_tokens": 64},
        environment={"name": "guess_number"},
        rewards=[],
    )
    assert "remove it" in words


def test_slices_and_segment_rules_are_refused_for_a_run_without_sampling(
    plan,
):
    sampling = {"slice_tokens": 64, "older_segments": "leave_out"}
    changes = {"algorithm": {"name": "sft"}, "rewards": [], "sampling": sampling}
    assert "samples nothing" in problem(plan, "sampling.slice_tokens", **changes)
    assert "lessons" in problem(plan, "sampling.older_segments", **changes)
