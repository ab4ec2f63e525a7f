"""Partial rollouts are kept until the rollout ends, written only by the holder of the group, and
then available to any worker.
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


def test_freed_group_can_be_claimed_by_another_worker_with_its_partial_rollouts(run, group):
    assert set_aside(group, partials(group)) == {group.pk}
    again = claimed(run)
    assert (again.pk, again.lease_owner, again.attempts) == (group.pk, "other", 0)
    kept = PartialRollout.objects.in_bulk()
    assert set(kept) == set(group.rollouts.values_list("pk", flat=True))
    assert {one.tokens for one in kept.values()} == {tokens_of("123")} and {
        one.completion_tokens for one in kept.values()
    } == {3}
    assert {one.left_fence + 1 for one in kept.values()} == {again.fence}


def test_group_is_not_freed_while_one_of_its_rollouts_is_in_progress(run, group):
    first, _ = partials(group)
    assert set_aside(group, [first], is_free=False) == {group.pk}
    assert claimed(run) is None
    assert PartialRollout.objects.get().left_fence is None


def test_freeing_a_group_frees_its_earlier_partial_rollouts_too(group):
    first, second = partials(group)
    set_aside(group, [first], is_free=False)
    set_aside(group, [second])
    assert set(PartialRollout.objects.values_list("left_fence", flat=True)) == {group.fence}


def test_later_partial_rollout_replaces_the_earlier_one(run, group):
    set_aside(group, partials(group))
    again = claimed(run)
    set_aside(again, partials(again, "12345", slices=2), is_free=False)
    kept = PartialRollout.objects.first()
    assert (kept.tokens, kept.slices, kept.left_fence) == (tokens_of("12345"), 2, None)


def test_worker_that_lost_the_group_stores_no_partial_rollouts_and_frees_nothing(run, group):
    Group.objects.update(fence=7)
    assert set_aside(group, partials(group)) == set()
    assert not PartialRollout.objects.exists() and Group.objects.get().lease_owner == "e"


def test_worker_whose_lease_expired_stores_no_partial_rollouts(run, group):
    Group.objects.update(lease_until="2020-01-01T00:00:00Z")
    assert set_aside(group, partials(group)) == set()
    assert not PartialRollout.objects.exists()


def test_finished_rollout_is_not_stored_as_partial(group):
    first, second = partials(group)
    Group.finish_rollouts(
        {group.pk: group.claimed}, [Outcome(first.rollout_id, tokens_of("1"), "1", "stop")]
    )
    set_aside(group, [first, second])
    assert set(PartialRollout.objects.values_list("pk", flat=True)) == {second.rollout_id}


def test_finishing_a_rollout_deletes_its_partial_and_keeps_the_others(run, group):
    first, second = partials(group)
    set_aside(group, [first, second])
    again = claimed(run)
    Group.finish_rollouts(
        {again.pk: again.claimed}, [Outcome(first.rollout_id, tokens_of("12345"), "12345", "stop")]
    )
    assert Rollout.objects.get(pk=first.rollout_id).tokens == tokens_of("12345")
    assert set(PartialRollout.objects.values_list("pk", flat=True)) == {second.rollout_id}
    assert list(partial_rollouts_are_being_sampled()) == []


def test_partial_rollouts_survive_engine_failures_until_the_group_is_dropped(new_run):
    run = new_run(group_attempts=2)
    (group,) = Group.open(run, "e", 60, 1, 0)
    set_aside(group, partials(group))
    again = claimed(run)
    again.fail("engine died")
    assert PartialRollout.objects.count() == 2
    claimed(run).fail("engine died")
    assert Group.objects.get().state == Group.State.DROPPED and not PartialRollout.objects.exists()


def test_partial_rollouts_are_deleted_when_the_run_ends(run, group):
    set_aside(group, partials(group))
    run.stop()
    assert Group.objects.close_ended() == 1
    assert not PartialRollout.objects.exists()


def test_ledger_reports_partial_rollouts_of_a_group_that_is_not_sampling(group):
    set_aside(group, partials(group))
    assert list(partial_rollouts_are_being_sampled()) == []
    Group.objects.update(state=Group.State.SCORING)
    first, _ = partial_rollouts_are_being_sampled()
    assert "its group scoring" in first
