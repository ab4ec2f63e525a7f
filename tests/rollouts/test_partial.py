"""What is set aside is kept until its rollout ends, written by whoever holds the group alone, and
free for anybody after.
"""

import pytest

from apps.dashboard.reconciliation.groups import partial_rollouts_are_being_sampled
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.partial import Partial, PartialRollout
from apps.runs.models import Run
from tests.conftest import tokens_of


@pytest.fixture
def group(run) -> Group:
    (group,) = Group.open(run, "e", 60, 1, run.published_version)
    return group


def partials(group: Group, text: str = "123", slices: int = 1) -> list[Partial]:
    return [
        Partial(rollout.pk, tokens_of(text), {"turns": []}, slices)
        for rollout in group.rollouts.order_by("sample_index")
    ]


def set_aside(group: Group, ones: list[Partial], is_free: bool = True) -> set[int]:
    return Group.set_aside({group.pk: group.claimed}, ones, {group.pk} if is_free else set())


def claimed(run: Run) -> Group | None:
    return next(iter(Group.objects.claim(Group.State.SAMPLING, "other", 60, 10, run)), None)


def test_a_group_that_is_left_is_claimed_by_anybody_with_what_was_said(run, group):
    assert set_aside(group, partials(group)) == {group.pk}
    again = claimed(run)
    assert (again.pk, again.lease_owner, again.attempts) == (group.pk, "other", 0)
    kept = PartialRollout.objects.in_bulk()
    assert set(kept) == set(group.rollouts.values_list("pk", flat=True))
    assert {one.tokens for one in kept.values()} == {tokens_of("123")} and {
        one.completion_tokens for one in kept.values()
    } == {3}
    assert {one.left_fence + 1 for one in kept.values()} == {again.fence}


def test_a_group_is_not_left_while_one_of_it_is_still_said(run, group):
    first, _ = partials(group)
    assert set_aside(group, [first], is_free=False) == {group.pk}
    assert claimed(run) is None
    assert PartialRollout.objects.get().left_fence is None


def test_leaving_a_group_leaves_all_that_was_stored_of_it_before(group):
    first, second = partials(group)
    set_aside(group, [first], is_free=False)
    set_aside(group, [second])
    assert set(PartialRollout.objects.values_list("left_fence", flat=True)) == {group.fence}


def test_what_is_set_aside_again_replaces_what_was_before(run, group):
    set_aside(group, partials(group))
    again = claimed(run)
    set_aside(again, partials(again, "12345", slices=2), is_free=False)
    kept = PartialRollout.objects.first()
    assert (kept.tokens, kept.slices, kept.left_fence) == (tokens_of("12345"), 2, None)


def test_who_lost_the_group_sets_nothing_aside_and_frees_nothing(run, group):
    Group.objects.update(fence=7)
    assert set_aside(group, partials(group)) == set()
    assert not PartialRollout.objects.exists() and Group.objects.get().lease_owner == "e"


def test_who_slept_past_the_lease_sets_nothing_aside(run, group):
    Group.objects.update(lease_until="2020-01-01T00:00:00Z")
    assert set_aside(group, partials(group)) == set()
    assert not PartialRollout.objects.exists()


def test_what_has_ended_is_not_set_aside_any_more(group):
    first, second = partials(group)
    Group.finish_rollouts(
        {group.pk: group.claimed}, [Outcome(first.rollout_id, tokens_of("1"), "1", "stop")]
    )
    set_aside(group, [first, second])
    assert set(PartialRollout.objects.values_list("pk", flat=True)) == {second.rollout_id}


def test_a_rollout_that_ends_is_no_longer_set_aside_and_others_are(run, group):
    first, second = partials(group)
    set_aside(group, [first, second])
    again = claimed(run)
    Group.finish_rollouts(
        {again.pk: again.claimed}, [Outcome(first.rollout_id, tokens_of("12345"), "12345", "stop")]
    )
    assert Rollout.objects.get(pk=first.rollout_id).tokens == tokens_of("12345")
    assert set(PartialRollout.objects.values_list("pk", flat=True)) == {second.rollout_id}
    assert list(partial_rollouts_are_being_sampled()) == []


def test_an_engine_that_died_takes_nothing_of_it_away_until_the_group_is_dropped(new_run):
    run = new_run(group_attempts=2)
    (group,) = Group.open(run, "e", 60, 1, 0)
    set_aside(group, partials(group))
    again = claimed(run)
    again.fail("engine died")
    assert PartialRollout.objects.count() == 2
    claimed(run).fail("engine died")
    assert Group.objects.get().state == Group.State.DROPPED and not PartialRollout.objects.exists()


def test_what_is_set_aside_goes_with_the_run(run, group):
    set_aside(group, partials(group))
    run.stop()
    assert Group.objects.close_ended() == 1
    assert not PartialRollout.objects.exists()


def test_the_ledger_tells_of_what_is_set_aside_and_sampled_by_nobody(group):
    set_aside(group, partials(group))
    assert list(partial_rollouts_are_being_sampled()) == []
    Group.objects.update(state=Group.State.SCORING)
    first, _ = partial_rollouts_are_being_sampled()
    assert "its group scoring" in first
