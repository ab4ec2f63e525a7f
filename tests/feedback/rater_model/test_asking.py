"""Which replies are shown to raters when a run has a budget of ratings."""

from collections import Counter

import pytest
from django.db.models import F
from django.utils import timezone

from apps.feedback.group_completion import close_overdue
from apps.feedback.item_opening import open_items
from apps.feedback.models import Item, Slot, open_slots
from apps.feedback.rater_model.base_nll import save_base_nll
from apps.feedback.rater_model.learning import learn
from apps.feedback.rater_model.reading import BaseNll
from apps.feedback.rater_model.standing import measure_agreement
from apps.rewards.models import Reward
from apps.rewards.scoring import record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

pytestmark = pytest.mark.django_db
# 2 groups per update and one update off: 4 groups before the first update.
PLAN = {"steps": 50}


def budget(**schedule) -> dict:
    return {"decisions": 40, "initial_share": 0.1, "min_initial_ratings": 4, **schedule}


def more(run) -> None:
    """Raise the published version so that a few more groups may be opened."""
    Run.objects.filter(pk=run.pk).update(published_version=F("published_version") + 4)
    run.refresh_from_db()


def test_first_items_come_from_different_groups(modelled, put):
    run = modelled(PLAN, schedule=budget())
    put(run, groups=4)
    assert Counter(Item.objects.values_list("group", flat=True)) == Counter(
        Group.objects.values_list("pk", flat=True)
    )


def test_rating_budget_is_never_exceeded(modelled, put, decide, bob):
    run = modelled(PLAN, schedule=budget(decisions=10, end_share=0.2))
    for _ in range(6):
        put(run, groups=4)
        decide(bob, run)
        Group.objects.update(state=Group.State.ADMITTED)
        more(run)
    assert Slot.objects.count() == Slot.objects.filter(state="done").count() == 10


def test_unanswered_items_are_replaced_in_other_groups(modelled, put):
    run = modelled(PLAN, schedule=budget())
    put(run, groups=4)
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    close_overdue()
    more(run)
    put(run, groups=4)
    assert (
        Slot.objects.filter(state="closed").count() == 4
        and Slot.objects.filter(state="open").count() >= 4
    )


def test_one_rating_in_four_is_an_audit(modelled, put):
    run = modelled(
        {"steps": 50, "groups_per_step": 8}, schedule=budget(decisions=80, initial_share=0.5)
    )
    put(run, groups=16)
    purposes = Counter(Item.objects.values_list("purpose", flat=True))
    assert purposes == {"reward": 24, "audit": 8}


def test_rewrites_are_part_of_the_first_items(modelled, put):
    run = modelled(
        {"steps": 50, "groups_per_step": 8},
        schedule=budget(decisions=64, initial_share=0.25, rewrites=16),
    )
    put(run, groups=16)
    asked = Counter(Item.objects.values_list("purpose", "form"))
    assert (
        asked["rewrite", "rewrite"] == 4
        and asked.total() == 16
        and asked["audit", "stars"] in (3, 4)
    )


def test_one_item_in_ten_is_repeated(modelled, put, decide, bob):
    run = modelled(
        {"steps": 20, "groups_per_step": 8},
        schedule=budget(decisions=200, initial_share=0.1, end_share=1.0),
        rater_model={"repeats": 0.1},
    )
    for _ in range(3):
        put(run, groups=16)
        decide(bob, run)
        Group.objects.update(state=Group.State.ADMITTED)
        more(run)
    purposes = Counter(Item.objects.values_list("purpose", flat=True))
    repeats = Item.objects.filter(purpose="repeat").select_related("repeats")
    assert purposes["repeat"] == pytest.approx(purposes.total() / 10, abs=1)
    assert all(item.members == item.repeats.members for item in repeats) and len(
        {i.repeats_id for i in repeats}
    ) == len(repeats)
    assert not Slot.objects.filter(item__purpose="repeat", is_required=True).exists()


def test_repeat_may_go_to_the_same_person_and_both_ratings_stay_valid(modelled, put, decide, bob):
    run = modelled(form="stars", schedule=budget(decisions=20, initial_share=1.0))
    put(run)
    first = decide(bob, run)[0]
    original = first.item
    open_slots(
        [
            Item.objects.create(
                run=run,
                group_id=original.group_id,
                form="stars",
                purpose="repeat",
                members=original.members,
                repeats=original,
            )
        ],
        {original.group_id: timezone.now()},
    )
    [again] = decide(bob, run, answer=lambda held: {"stars": 3})
    first.refresh_from_db()
    assert first.is_standing and again.is_standing and again.item.repeats_id == original.pk
    current = Reward.objects.filter(rollout__in=original.members, by=bob, is_current=True)
    assert list(current.values_list("rating_reward__rating", flat=True)) == [first.pk]
    assert (
        measure_agreement(run).again.decisions == 1 and measure_agreement(run).people.decisions == 0
    )


def test_configured_share_goes_to_groups_with_the_largest_predicted_spread(
    modelled, put, decide, bob, finish
):
    run = modelled(
        PLAN,
        schedule=budget(decisions=80, initial_share=0.1, min_initial_ratings=8, spread_share=0.5),
    )
    put(run, groups=4)
    decide(bob, run)
    learn(run)
    Group.objects.update(state=Group.State.ADMITTED)
    more(run)
    alike = finish(run, ["thank you so much"], groups=6)
    Rollout.objects.filter(group=alike[4], sample_index=1).update(text="go away now")
    save_base_nll(
        {
            pk: BaseNll(0.5, 2.0, 0)
            for pk in Rollout.objects.filter(group__in=alike).values_list("pk", flat=True)
        }
    )
    open_items(
        record_verdicts(Group.objects.claim(Group.State.SCORING, "scorer", 60, 100, run), [])
    )
    asked = Counter(Item.objects.filter(group__in=alike).values_list("group", flat=True))
    assert (
        asked[alike[4].pk] == 2
        and max(count for group, count in asked.items() if group != alike[4].pk) == 1
    )


def test_without_a_schedule_the_group_with_the_least_certain_prediction_comes_first(
    modelled, put, decide, bob
):
    run = modelled({"groups_per_step": 3, "steps": 20})
    put(run, ["thank you so much", "go away now"], groups=2)
    decide(bob, run)
    learn(run)
    (known,) = put(run, ["thank you so much", "go away now"])
    (strange,) = put(run, ["zebra quartz vivid", "umbrella lantern moss"])
    Item.objects.filter(group__in=[known, strange]).delete()
    open_items([known, strange])  # now that their surprise values are known
    due = {
        slot.group_id: (slot.group.deadline_at - slot.due_at).total_seconds()
        for slot in Slot.objects.filter(state="open")
    }
    assert due[strange.pk] > due[known.pk]
