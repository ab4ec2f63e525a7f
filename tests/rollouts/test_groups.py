"""Groups are opened within the pace, finished once, and belong to the holder of the fence."""

import threading

import pytest
from django.db import IntegrityError, connection, transaction

from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run, StaleFence
from tests.conftest import tokens_of


def test_pace_limits_the_number_of_open_groups(new_run):
    run = new_run(max_staleness=0, groups_per_step=2)
    assert len(Group.open(run, "e", 60, 100, run.published_version)) == 2
    assert Group.open(run, "e", 60, 100, run.published_version) == []


def test_new_version_does_not_widen_the_pace_of_an_engine_with_an_older_version(new_run):
    run = new_run(max_staleness=0, groups_per_step=2)
    Group.open(run, "e", 60, 100, 0)
    Run.objects.update(published_version=1)
    assert Group.open(run, "e", 60, 100, 0) == []
    assert [group.opened_version for group in Group.open(run, "e", 60, 100, 1)] == [1, 1]


def test_dropped_group_makes_room_for_another(new_run, finish):
    run = new_run(max_staleness=0, groups_per_step=2)
    group, _ = Group.open(run, "e", 60, 2, run.published_version)
    group.drop("nothing came")
    assert [g.draw_index for g in Group.open(run, "e", 60, 100, run.published_version)] == [2]


def test_paused_run_opens_no_groups(run):
    run.pause()
    assert Group.open(run, "e", 60, 100, run.published_version) == []


def test_each_draw_of_an_epoch_takes_a_different_task(new_run):
    run = new_run(max_staleness=1, groups_per_step=2)
    assert len({group.task_id for group in Group.open(run, "e", 60, 4, run.published_version)}) == 4


def test_group_moves_to_scoring_when_its_last_rollout_is_finished(run):
    (group,) = Group.open(run, "e", 60, 1, run.published_version)
    first, second = group.rollouts.order_by("sample_index")
    claims = {group.pk: group.claimed}
    Group.finish_rollouts(claims, [Outcome(first.pk, tokens_of("12345"), "12345", "stop")])
    assert Group.objects.get(pk=group.pk).state == Group.State.SAMPLING
    Group.finish_rollouts(claims, [Outcome(second.pk, tokens_of("12345"), "12345", "stop")])
    assert Group.objects.get(pk=group.pk).state == Group.State.SCORING


def test_rollout_written_twice_keeps_its_first_text(run):
    (group,) = Group.open(run, "e", 60, 1, run.published_version)
    first = group.rollouts.first()
    claims = {group.pk: group.claimed}
    Group.finish_rollouts(claims, [Outcome(first.pk, tokens_of("111"), "111", "stop")])
    Group.finish_rollouts(claims, [Outcome(first.pk, tokens_of("222"), "222", "stop")])
    assert Rollout.objects.get(pk=first.pk).text == "111"


def test_stored_tokens_are_read_back_unchanged(run, finish):
    (group,) = finish(run, ["13254"])
    assert group.rollouts.first().tokens == tokens_of("13254")


def test_text_with_nul_and_surrogates_is_stored_in_visible_form(run, finish):
    finish(run, ["12345"])
    (other,) = Group.open(run, "e", 60, 1, run.published_version)
    Group.finish_rollouts(
        {other.pk: other.claimed},
        [Outcome(r.pk, tokens_of("x"), "a\x00b\ud800", "stop") for r in other.rollouts.all()],
    )
    assert other.rollouts.first().text == "a\u2400b?"


def test_worker_that_lost_its_lease_writes_nothing(run):
    (group,) = Group.open(run, "slow", 0, 1, run.published_version)
    old = group.claimed
    (taken,) = Group.objects.claim(Group.State.SAMPLING, "quick", 60, 1)
    assert taken.fence == old.fence + 1
    ours = Group.finish_rollouts(
        {group.pk: old}, [Outcome(r.pk, tokens_of("1"), "1", "stop") for r in group.rollouts.all()]
    )
    assert ours == set() and not Rollout.objects.filter(group=group, state="finished").exists()


def test_worker_whose_lease_expired_writes_nothing_even_if_nobody_took_over(run):
    (group,) = Group.open(run, "slow", 0, 1, run.published_version)
    outcomes = [Outcome(r.pk, tokens_of("1"), "1", "stop") for r in group.rollouts.all()]
    assert Group.finish_rollouts({group.pk: group.claimed}, outcomes) == set()
    with pytest.raises(StaleFence):
        group.move(Group.State.SCORING)


def test_stale_fence_cannot_move_a_group(run):
    (group,) = Group.open(run, "slow", 0, 1, run.published_version)
    Group.objects.claim(Group.State.SAMPLING, "quick", 60, 1)
    with pytest.raises(StaleFence):
        group.move(Group.State.SCORING)


def test_group_with_a_valid_lease_cannot_be_claimed(run):
    Group.open(run, "e", 60, 1, run.published_version)
    assert Group.objects.claim(Group.State.SAMPLING, "other", 60, 10) == []


def test_group_that_keeps_failing_is_dropped_with_the_reason(new_run):
    run = new_run(group_attempts=2)
    (group,) = Group.open(run, "e", 60, 1, run.published_version)
    group.fail("engine died")
    (group,) = Group.objects.claim(Group.State.SAMPLING, "e", 60, 1)
    group.fail("engine died")
    group = Group.objects.get()
    assert (group.state, group.reason) == (Group.State.DROPPED, "failed 2 times: engine died")
    assert Run.objects.get().groups_dropped == 1


def test_dropped_group_must_have_a_reason(run):
    (group,) = Group.open(run, "e", 60, 1, run.published_version)
    with pytest.raises(IntegrityError), transaction.atomic():
        Group.objects.filter(pk=group.pk).update(state=Group.State.DROPPED)


def test_claim_on_a_filtered_queryset_is_refused(run):
    with pytest.raises(TypeError, match="from all groups"):
        Group.objects.filter(size=4).claim(Group.State.SCORING, "scorer", 60, 1)


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_claimers_never_take_the_same_group(new_run):
    run = new_run(groups_per_step=50, max_staleness=1, steps=10)
    Group.open(run, "e", 0, 100, run.published_version)
    taken = []
    barrier = threading.Barrier(2)

    def take(owner: str) -> None:
        barrier.wait()
        while groups := Group.objects.claim(Group.State.SAMPLING, owner, 60, 7):
            taken.extend(group.pk for group in groups)
        connection.close()

    threads = [threading.Thread(target=take, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(taken) == len(set(taken)) == 100


@pytest.mark.django_db(transaction=True)
def test_two_explorers_never_open_the_same_draw(new_run):
    run = new_run(groups_per_step=20, max_staleness=1, steps=10)
    barrier = threading.Barrier(2)

    def explore() -> None:
        barrier.wait()
        while Group.open(run, "e", 60, 3, run.published_version):
            pass
        connection.close()

    threads = [threading.Thread(target=explore) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(Group.objects.values_list("draw_index", flat=True)) == list(range(40))


def test_open_groups_of_an_ended_run_are_dropped_and_counted(run, finish):
    finish(run)
    Group.open(run, "e", 60, 1, run.published_version)
    run.stop()
    assert Group.objects.close_ended() == 2
    assert set(Group.objects.values_list("state", "reason")) == {("dropped", "the run ended")}
    assert Run.objects.get().groups_dropped == 2
