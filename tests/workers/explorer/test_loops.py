"""An answer in a loop is stopped early, keeps its text, and is scored like a finished one."""

import pytest

from apps.rollouts.models import Group, Rollout
from apps.rollouts.repeats import LoopWatch

pytestmark = pytest.mark.django_db(transaction=True)
LOOP = {
    "max_pattern_size": 4,
    "min_count": 2,
    "min_tokens": 2,
}  # an untrained policy with few tokens soon repeats one


@pytest.fixture
def loops(new_run, tiny_policy):
    return new_run(
        sampling={"max_tokens": 110, "repeats": LOOP}, engine="transformers", group_size=8
    )


def finished(stage) -> list[Rollout]:
    def look() -> bool:
        stage.explorer.serve()
        return Group.objects.exists() and not Group.objects.filter(state="sampling").exists()

    stage.eventually(look, 300)
    return list(Rollout.objects.order_by("pk"))


def first_loop(rollout: Rollout) -> int | None:
    """Return the number of tokens after which the rollout was in a loop."""
    watch = LoopWatch(*LOOP.values())
    return next(
        (n for n, token in enumerate(rollout.tokens.completion_ids, start=1) if watch.push(token)),
        None,
    )


def test_only_answers_in_a_loop_end_with_repetition(loops, stage):
    stage.sip(3)  # an answer that arrives in one piece has already ended
    rollouts = finished(stage)
    looped = [one for one in rollouts if one.stop_reason == "repetition"]
    assert looped and all(first_loop(one) and one.completion_tokens < 110 for one in looped)
    assert not any(first_loop(one) for one in rollouts if one.stop_reason == "length")
    assert {one.state for one in rollouts} == {"finished"} and set(
        Group.objects.values_list("state", flat=True)
    ) == {"scoring"}


def test_loop_is_stopped_at_the_token_that_completes_it(loops, stage):
    stage.sip()  # one token at a time
    looped = [one for one in finished(stage) if one.stop_reason == "repetition"]
    assert looped and all(first_loop(one) == one.completion_tokens for one in looped)
