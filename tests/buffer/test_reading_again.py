"""Experience replay: which trained groups an update uses again, and how that is recorded."""

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
    """Create a run of four groups an update, up to half of them replayed."""

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
    return taken_again(groups, rule, **{"number": 6, "limit": 2, "oldest": 5, "seed": 0, **bounds})


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({"version": 4}, UniformReplay()),
        ({"uses": 3}, UniformReplay(max_uses=3)),
        ({"last": 5}, UniformReplay(cool_down=1)),
    ],
    ids=["stale", "used up", "just used"],
)
def test_stale_used_up_or_recently_used_groups_are_not_replayed(known, rule):
    assert again([group(1, **known)], rule) == []


def test_group_at_the_limits_of_age_uses_and_cool_down_is_replayed():
    assert again([group(1, version=5, uses=2, last=4)], UniformReplay(max_uses=3, cool_down=1)) == [
        1
    ]


def test_sample_does_not_depend_on_the_order_of_the_groups():
    groups = [group(n) for n in range(40)]
    assert again(groups, UniformReplay()) == again(groups[::-1], UniformReplay())


def test_each_update_and_seed_gives_another_sample():
    groups = [group(n) for n in range(400)]
    assert (
        len({tuple(again(groups, UniformReplay(), number=n, limit=5)) for n in range(6, 16)}) == 10
    )
    assert len({tuple(again(groups, UniformReplay(), seed=n, limit=5)) for n in range(10)}) == 10


def test_no_group_is_replayed_twice_in_one_update():
    assert sorted(again([group(n) for n in range(5)], PrioritizedReplay(), limit=9)) == [
        0,
        1,
        2,
        3,
        4,
    ]


def shares(rule: object) -> float:
    """Return how often the group with three times the advantage of the other (floor included) is
    replayed, over 4,000 updates.
    """
    pair = [group(1, advantage=0.59, last=0), group(2, advantage=0.19, last=0)]
    taken = Counter(again(pair, rule, number=n, limit=1)[0] for n in range(1, 4001))
    return taken[1] / 4000


def test_uniform_replay_takes_each_group_equally_often():
    assert shares(UniformReplay()) == pytest.approx(0.5, abs=0.04)


def test_prioritized_replay_takes_groups_in_proportion_to_their_advantage():
    assert shares(PrioritizedReplay()) == pytest.approx(0.75, abs=0.04)


def test_alpha_sharpens_the_weights_and_zero_makes_them_equal():
    assert shares(PrioritizedReplay(alpha=2)) == pytest.approx(0.9, abs=0.04)
    assert shares(PrioritizedReplay(alpha=0)) == pytest.approx(0.5, abs=0.04)


def test_group_without_advantage_can_be_replayed():
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
def test_decay_takes_the_highest_version_minus_decayed_uses(rule, seed):
    groups = of_all_sorts(seed)
    left = [one for one in groups if one.version >= 5 and one.uses < rule.max_uses]
    wanted = []
    while left and len(wanted) < 7:
        best = max(left, key=lambda one: (one.version - rule.decay * one.uses, -one.draw))
        left.remove(best)
        wanted.append(best.group)
    assert again(groups, rule, limit=7) == wanted


def test_linear_decay_has_no_limit_of_uses():
    used = [group(1, uses=9_000)]
    assert again(used, LinearDecay()) == [1] and again(used, DecayWithLimit()) == []


def test_noise_replays_the_older_group_as_often_as_the_normal_distribution_predicts():
    """Two groups a version apart: N(0, 2) is above 1 in 23.98 % of all draws."""
    pair = [group(1, version=6), group(2, version=5)]
    taken = Counter(
        again(pair, DecayWithLimit(sigma=1.0), number=n, limit=1)[0] for n in range(6, 4006)
    )
    assert taken[2] / 4000 == pytest.approx(0.2398, abs=0.034)  # five standard errors
    assert again(pair, DecayWithLimit(sigma=1.0)) == again(pair[::-1], DecayWithLimit(sigma=1.0))


# -- the rows


def test_first_update_replays_nothing(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 4)
    step = trained(run)
    assert draws(step, is_again=False) == {0, 1, 2, 3} and not draws(step, is_again=True)


def test_later_updates_replay_their_share_and_fill_up_with_new_groups(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    step = trained(run)
    assert draws(step, is_again=False) == {4, 5}
    assert len(draws(step, is_again=True)) == 2 and draws(step, is_again=True) < {0, 1, 2, 3}
    assert violated() == {}


def test_replayed_group_is_complete_and_counted_once(reading, judged, trained):
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


def test_update_waits_if_there_are_too_few_new_groups(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 5)
    trained(run)
    assert plan_step(run, run.fence) is None


def test_no_experience_is_replayed_more_often_or_sooner_than_allowed(reading, judged, trained):
    run = reading({"max_uses": 2, "cool_down": 1}, steps=20)
    for _ in range(6):
        judged(run, *[WIDE] * 4)
        trained(run)
    assert Run.objects.get(pk=run.pk).groups_again > 0
    assert max(Experience.objects.values_list("uses", flat=True)) == 2
    assert violated() == {}


def test_groups_beyond_the_staleness_limit_are_not_replayed(reading, judged, trained):
    run = reading(max_staleness=1)
    judged(run, *[WIDE] * 6, version=0)
    trained(run)
    assert len(groups_again(run)) == 2
    trained(run)
    assert groups_again(run) == []


def test_groups_of_an_excluded_task_are_not_replayed(reading, judged, trained, alice):
    run = reading()
    groups = judged(run, *[WIDE] * 4)
    trained(run)
    for task in {group.task_id for group in groups}:
        LeftOut.objects.create(run=run, task_id=task, reason="guessed", by=alice)
    assert groups_again(run) == []


def test_groups_excluded_by_a_user_are_not_replayed(reading, judged, trained):
    run = reading({"share": 0.9})
    groups = judged(run, *[WIDE] * 8)
    trained(run)
    Experience.objects.take_no_more(run, [groups[0].pk, groups[1].pk], "suspected of hacking")
    assert set(groups_again(run)) == {groups[2].pk, groups[3].pk}
    assert violated() == {}


def test_lost_plan_is_made_again_with_the_same_batch(reading, judged, trained):
    """The planner is killed before the transaction ends."""
    run = reading({"name": "prioritized"})
    judged(run, *[(0.0, 0.1 * n) for n in range(1, 9)])
    trained(run)
    with transaction.atomic():
        lost = [e.pk for e in batch_of(plan_step(run, run.fence))]
        transaction.set_rollback(True)
    assert TrainStep.objects.count() == 1
    assert [e.pk for e in batch_of(plan_step(run, run.fence))] == lost


def test_planned_update_does_not_change(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    step = plan_step(run, run.fence)
    assert set(Experience.objects.values_list("state", flat=True)) == {"trained", "claimed"}
    assert plan_step(run, run.fence) == step and violated() == {}


def test_replayed_experience_keeps_its_behaviour_logprobs(reading, judged, trained):
    run = reading()
    judged(run, *[WIDE] * 6)
    trained(run)
    rows = {e.is_again: build_training_row(e) for e in batch_of(trained(run))}
    assert rows[True].behaviour_logprobs == (-0.5,) * 5 == rows[False].behaviour_logprobs


def test_batch_advantages_are_those_of_the_update_that_uses_them(reading, judged):
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
def test_two_concurrent_planners_get_one_plan(reading, judged, trained):
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


def test_run_with_replay_opens_fewer_groups_and_reaches_its_last_step(reading, judged, trained):
    run = reading(max_staleness=1, steps=12)
    while run.step < run.planned_steps:
        if room := groups_allowed(run.pace):
            judged(run, *[WIDE] * room)
        trained(run)
    assert run.groups_opened + run.groups_again == 12 * 4 and run.groups_again
    assert not run.groups_dropped and violated() == {}


# -- findings of reconcile


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


def test_reconcile_finds_a_replay_beyond_the_limit_of_uses(replayed):
    run = Run.objects.get()
    run.config["reading"]["replay"] = {"name": "none"}
    run.save()
    assert {
        "trained experiences belong to committed steps",
        "experience replay stays within its limits",
    } <= set(violated())


def test_reconcile_finds_a_wrong_counter_of_replayed_groups(replayed):
    Run.objects.update(groups_again=77)
    assert "the counter has 77 replayed groups" in found()[0]


def test_reconcile_finds_a_replayed_item_marked_as_new(replayed):
    StepItem.objects.filter(is_again=True).update(is_again=False)
    assert any("as new, but an earlier step used it" in words for words in found())


def test_reconcile_finds_a_new_item_marked_as_replayed(replayed):
    StepItem.objects.filter(step__number=1).update(is_again=True)
    assert any("but no earlier step used it" in words for words in found())


def test_reconcile_finds_a_replay_within_the_cool_down(replayed):
    run = Run.objects.get()
    run.config["reading"]["replay"]["cool_down"] = 5
    run.save()
    assert all("already used" in words for words in found())


@pytest.mark.parametrize(
    ("replay", "limit"),
    [({"name": "linear_decay"}, 4), ({"name": "decay_with_limit", "max_uses": 2}, 2)],
)
def test_decay_replays_no_experience_more_often_than_its_rule_allows(
    reading, judged, trained, replay, limit
):
    run = reading(replay, steps=20)
    judged(run, *[WIDE] * 10, version=0)
    for _ in range(4):
        trained(run)
    assert run.groups_again == 6
    assert max(Experience.objects.values_list("uses", flat=True)) <= limit
    assert violated() == {}
