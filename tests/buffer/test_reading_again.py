"""Experience replay: which trained groups an update takes again, and that it is so on record."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from apps.buffer.models import Experience, StepItem, batch_of, commit_step, groups_again, plan_step
from apps.buffer.reading import TrainedGroup, taken_again
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.reconciliation.groups import group_ledger
from apps.pipelines.crediting import credit_batch
from apps.rollouts.excluded_tasks import LeftOut
from apps.runs.admission import groups_allowed
from apps.runs.models import Run, TrainStep
from apps.runs.reading import DecayWithLimit, LinearDecay, PrioritizedReplay, UniformReplay
from workers.trainer.run_trainer import build_training_row

WIDE = (0.0, 1.0)
NO_ENGINE = {"engines served what was published", "published weights match their manifests"}


@pytest.fixture
def reading(new_run):
    """A run of four groups to an update that may take half of them again."""

    def make(replay: object = None, **changes: object) -> Run:
        rule = {"name": "uniform", "share": 0.5, **(replay or {})}
        run = new_run(
            **{"reading": {"replay": rule}, "groups_per_step": 4, "max_staleness": 9, **changes}
        )
        assert run.claim_trainer("t", 600)
        return run

    return make


def draws(step: TrainStep, **which: object) -> set[int]:
    return set(step.items.filter(**which).values_list("experience__group__draw_index", flat=True))


def violated() -> dict[str, list[str]]:
    return {name: found for name, found in reconcile().items() if found and name not in NO_ENGINE}


# -- the rules


def group(number: int, **known: object) -> TrainedGroup:
    return TrainedGroup(
        **{
            "group": number,
            "draw": number,
            "version": 5,
            "uses": 1,
            "last": 5,
            "advantage": 0.5,
            **known,
        }
    )


def again(groups: list[TrainedGroup], rule: object, **bounds: int) -> list[int]:
    return taken_again(groups, rule, **{"number": 6, "most": 2, "oldest": 5, "seed": 0, **bounds})


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({"version": 4}, UniformReplay()),
        ({"uses": 3}, UniformReplay(max_uses=3)),
        ({"last": 5}, UniformReplay(cool_down=1)),
    ],
    ids=["stale", "used up", "just used"],
)
def test_what_is_stale_or_used_up_or_just_used_does_not_come_again(known, rule):
    assert again([group(1, **known)], rule) == []


def test_what_is_as_old_as_allowed_with_a_use_left_and_rested_comes_again():
    assert again([group(1, version=5, uses=2, last=4)], UniformReplay(max_uses=3, cool_down=1)) == [
        1
    ]


def test_the_same_groups_give_the_same_sample_in_whatever_order_they_are_read():
    groups = [group(n) for n in range(40)]
    assert again(groups, UniformReplay()) == again(groups[::-1], UniformReplay())


def test_another_update_or_seed_gives_another_sample():
    groups = [group(n) for n in range(400)]
    assert (
        len({tuple(again(groups, UniformReplay(), number=n, most=5)) for n in range(6, 16)}) == 10
    )
    assert len({tuple(again(groups, UniformReplay(), seed=n, most=5)) for n in range(10)}) == 10


def test_nobody_is_taken_twice():
    assert sorted(again([group(n) for n in range(5)], PrioritizedReplay(), most=9)) == [
        0,
        1,
        2,
        3,
        4,
    ]


def shares(rule: object) -> float:
    """How often the one of two groups that had thrice the advantage (the floor counted in) comes,
    over 4,000 updates.
    """
    pair = [group(1, advantage=0.59, last=0), group(2, advantage=0.19, last=0)]
    taken = Counter(again(pair, rule, number=n, most=1)[0] for n in range(1, 4001))
    return taken[1] / 4000


def test_uniform_replay_takes_each_as_often():
    assert shares(UniformReplay()) == pytest.approx(0.5, abs=0.04)


def test_prioritized_replay_takes_each_as_often_as_its_advantage_weighs():
    assert shares(PrioritizedReplay()) == pytest.approx(0.75, abs=0.04)


def test_alpha_sharpens_the_weights_and_zero_makes_them_alike():
    assert shares(PrioritizedReplay(alpha=2)) == pytest.approx(0.9, abs=0.04)
    assert shares(PrioritizedReplay(alpha=0)) == pytest.approx(0.5, abs=0.04)


def test_a_group_without_any_advantage_may_come_too():
    assert again([group(1, advantage=0.0)], PrioritizedReplay()) == [1]


def of_all_sorts(seed: int) -> list[TrainedGroup]:
    draw = random.Random(seed)
    return [
        group(n, version=draw.randrange(4, 9), uses=draw.randrange(1, 6), last=draw.randrange(6))
        for n in range(30)
    ]


@pytest.mark.parametrize(
    "rule",
    [LinearDecay(), LinearDecay(decay=0.5), DecayWithLimit(), DecayWithLimit(decay=0, max_uses=4)],
)
@pytest.mark.parametrize("seed", range(4))
def test_decay_takes_the_highest_version_less_its_uses(rule, seed):
    groups = of_all_sorts(seed)
    left = [one for one in groups if one.version >= 5 and one.uses < rule.max_uses]
    wanted = []
    while left and len(wanted) < 7:
        best = max(left, key=lambda one: (one.version - rule.decay * one.uses, -one.draw))
        left.remove(best)
        wanted.append(best.group)
    assert again(groups, rule, most=7) == wanted


def test_linear_decay_takes_what_was_used_ever_so_often():
    used = [group(1, uses=9_000)]
    assert again(used, LinearDecay()) == [1] and again(used, DecayWithLimit()) == []


def test_noise_of_one_version_lets_the_older_come_as_often_as_a_normal_has_it():
    """Two groups a version apart: N(0, 2) is above 1 in 23.98 % of all draws."""
    pair = [group(1, version=6), group(2, version=5)]
    taken = Counter(
        again(pair, DecayWithLimit(sigma=1.0), number=n, most=1)[0] for n in range(6, 4006)
    )
    assert taken[2] / 4000 == pytest.approx(0.2398, abs=0.034)  # five standard errors
    assert again(pair, DecayWithLimit(sigma=1.0)) == again(pair[::-1], DecayWithLimit(sigma=1.0))


# -- the rows


def test_the_first_update_has_nothing_to_take_again(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 4)
    step = trained(run)
    assert draws(step, is_again=False) == {0, 1, 2, 3} and not draws(step, is_again=True)


def test_later_updates_take_their_share_again_and_fill_up_with_new_groups(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    step = trained(run)
    assert draws(step, is_again=False) == {4, 5}
    assert len(draws(step, is_again=True)) == 2 and draws(step, is_again=True) < {0, 1, 2, 3}
    assert violated() == {}


def test_a_group_that_is_taken_again_is_whole_and_counted_once(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    twice = draws(trained(run), is_again=True)
    assert dict(Counter(Experience.objects.values_list("uses", flat=True))) == {1: 8, 2: 4}
    assert (
        set(Experience.objects.filter(uses=2).values_list("group__draw_index", flat=True)) == twice
    )
    assert group_ledger(run)["trained"] == 6 and sum(group_ledger(run).values()) == 2 * 6
    assert Run.objects.get(pk=run.pk).groups_again == 2


def test_with_too_few_new_groups_an_update_waits(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 5)
    trained(run)
    assert plan_step(run, run.fence) is None


def test_nothing_is_used_more_often_or_sooner_than_allowed(reading, judged, trained):
    run = reading({"max_uses": 2, "cool_down": 1}, steps=20)
    for _ in range(6):
        judged(run, *[WIDE] * 4)
        trained(run)
    assert Run.objects.get(pk=run.pk).groups_again > 0
    assert max(Experience.objects.values_list("uses", flat=True)) == 2
    assert violated() == {}


def test_nothing_comes_again_beyond_the_bound(reading, judged, trained):
    run = reading(max_staleness=1)
    judged(run, *[WIDE] * 6, version=0)
    trained(run)
    assert len(groups_again(run)) == 2
    trained(run)
    assert groups_again(run) == []


def test_a_task_that_was_left_out_meanwhile_does_not_come_again(reading, judged, trained, alice):
    run = reading()
    groups = judged(run, *[WIDE] * 4)
    trained(run)
    for task in {group.task_id for group in groups}:
        LeftOut.objects.create(run=run, task_id=task, reason="guessed", by=alice)
    assert groups_again(run) == []


def test_what_people_want_to_be_taken_no_more_does_not_come_again(reading, judged, trained):
    run = reading({"share": 0.9})
    groups = judged(run, *[WIDE] * 8)
    trained(run)
    Experience.objects.take_no_more(run, [groups[0].pk, groups[1].pk], "suspected of hacking")
    assert set(groups_again(run)) == {groups[2].pk, groups[3].pk}
    assert violated() == {}


def test_a_plan_that_was_lost_is_made_again_alike(reading, judged, trained):
    """Whoever plans is killed before the transaction ends."""
    run = reading({"name": "prioritized"})
    judged(run, *[(0.0, 0.1 * n) for n in range(1, 9)])
    trained(run)
    with transaction.atomic():
        lost = [e.pk for e in batch_of(plan_step(run, run.fence))]
        transaction.set_rollback(True)
    assert TrainStep.objects.count() == 1
    assert [e.pk for e in batch_of(plan_step(run, run.fence))] == lost


def test_an_update_that_is_planned_stays_what_it_is(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    step = plan_step(run, run.fence)
    assert set(Experience.objects.values_list("state", flat=True)) == {"trained", "claimed"}
    assert plan_step(run, run.fence) == step and violated() == {}


def test_what_comes_again_brings_the_logprobs_that_it_was_sampled_with(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    rows = {e.is_again: build_training_row(e) for e in batch_of(trained(run))}
    assert rows[True].behaviour_logprobs == (-0.5,) * 5 == rows[False].behaviour_logprobs


def test_advantages_over_the_batch_are_those_of_the_update_that_takes_it(reading, judged):
    run = reading(algorithm={"name": "reinforce_plus_plus"})
    judged(run, *[WIDE] * 6)
    seen = []

    def crediting(plan, batch):
        seen.append([experience.group.draw_index for experience in batch])
        return credit_batch(plan, batch)

    for _ in range(2):
        step = plan_step(run, run.fence, crediting)
        with run.fenced(run.fence) as locked:
            commit_step(locked, step, run.fence)
        run.refresh_from_db()
    assert set(seen[1]) >= {4, 5} and len(set(seen[1])) == 4
    assert not StepItem.objects.filter(step=step, advantage=None).exists()


@pytest.mark.django_db(transaction=True)
def test_two_who_plan_at_once_find_one_plan(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)

    def plan(_: int) -> int:
        try:
            return plan_step(run, run.fence).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(plan, range(2))
    assert first == second and StepItem.objects.filter(step=first).count() == 8


# -- the pace


def test_a_run_that_replays_draws_fewer_groups_and_never_runs_dry(reading, judged, trained):
    run = reading(max_staleness=1, steps=12)
    while run.step < run.planned_steps:
        if room := groups_allowed(run.pace):
            judged(run, *[WIDE] * room)
        trained(run)
    assert run.groups_opened + run.groups_again == 12 * 4 and run.groups_again
    assert not run.groups_dropped and violated() == {}


# -- what reconcile finds


@pytest.fixture
def replayed(reading, judged, trained) -> Run:
    run = reading({"max_uses": 2, "cool_down": 1})
    judged(run, *[WIDE] * 12)
    for _ in range(3):
        trained(run)
    assert run.groups_again and violated() == {}
    return run


def found() -> list[str]:
    assert set(violated()) == {"experience replay stays within its limits"}
    return violated()["experience replay stays within its limits"]


def test_a_use_too_many_is_found(replayed):
    run = Run.objects.get()
    run.config["reading"]["replay"] = {"name": "none"}
    run.save()
    assert {
        "trained experiences belong to committed steps",
        "experience replay stays within its limits",
    } <= set(violated())


def test_a_counter_that_is_wrong_is_found(replayed):
    Run.objects.update(groups_again=77)
    assert "the counter has 77 replayed groups" in found()[0]


def test_an_item_that_hides_that_it_was_taken_again_is_found(replayed):
    StepItem.objects.filter(is_again=True).update(is_again=False)
    assert any("as new, but an earlier step used it" in words for words in found())


def test_an_item_that_was_never_taken_before_is_found(replayed):
    StepItem.objects.filter(step__number=1).update(is_again=True)
    assert any("but no earlier step used it" in words for words in found())


def test_a_use_too_soon_is_found(replayed):
    run = Run.objects.get()
    run.config["reading"]["replay"]["cool_down"] = 5
    run.save()
    assert all("already used" in words for words in found())


@pytest.mark.parametrize(
    ("replay", "most"),
    [({"name": "linear_decay"}, 4), ({"name": "decay_with_limit", "max_uses": 2}, 2)],
)
def test_by_decay_nothing_is_used_more_often_than_its_rule_allows(
    reading, judged, trained, replay, most
):
    run = reading(replay, steps=20)
    judged(run, *[WIDE] * 10, version=0)
    for _ in range(4):
        trained(run)
    assert run.groups_again == 6
    assert max(Experience.objects.values_list("uses", flat=True)) <= most
    assert violated() == {}
