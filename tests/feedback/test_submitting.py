"""Accepting a rating: once, from the holder of the item, within its scale, with its rewards; and
withdrawing it.
"""

import uuid

import pytest

from apps.feedback.claiming import claim
from apps.feedback.forms import BadAnswer
from apps.feedback.item_opening import open_items
from apps.feedback.models import Demonstration, Intervention, Item, Preference, Rating, Slot
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.items import submit
from apps.feedback.ratings.rewrites import demonstrate
from apps.feedback.ratings.stars import Stars, give
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.rewards.models import Reward
from apps.rewards.scoring import hand_on
from apps.rollouts.models import Group
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask
from tests.feedback.test_claiming import shift

pytestmark = pytest.mark.django_db

ASKING = {"per_group": 2, "deadline_s": 600}


@pytest.fixture
def held(new_run, finish, bob):
    """Return a function that lets bob claim one item; keywords replace fields of the run's
    `people`.
    """

    def make(texts=("one", "two"), **people):
        ask(new_run(people={**ASKING, **people}, group_size=len(texts)), finish, list(texts))
        return claim(bob)[0]

    return make


def test_rating_is_stored_with_its_reward(held, bob):
    item = held()
    taken = submit(
        bob,
        item.slot_id,
        answer_to(item, {"stars": 4}, critique="kind", seconds=3.5, first_key_ms=800, changes=1),
    )
    rating = Rating.objects.get(pk=taken.rating_id)
    assert (rating.answer, rating.critique, rating.seconds, rating.changes) == (
        {"stars": 4},
        "kind",
        3.5,
        1,
    )
    reward = rating.rating_rewards.get().reward
    assert (reward.value, reward.scorer, reward.by, reward.source) == (0.75, "stars", bob, "human")
    assert Slot.objects.get(pk=item.slot_id).state == Slot.State.DONE


def test_group_is_closed_after_its_last_rating(held, bob):
    item = held()
    submit(bob, item.slot_id, answer_to(item, {"stars": 4}))
    assert Group.objects.get(pk=item.group_id).state == Group.State.WAITING
    (last,) = claim(bob)
    submit(bob, last.slot_id, answer_to(last, {"stars": 4}))
    assert Group.objects.get(pk=item.group_id).state == Group.State.JUDGED


def test_a_ranking_gives_every_rollout_a_reward(held, bob):
    item = held(("a", "b", "c"), form="ranking", per_group=3, anchor=False)
    first, second, third = item.shown
    submit(
        bob,
        item.slot_id,
        answer_to(item, {"ranks": {str(first): 2, str(second): 1, str(third): 3}}),
    )
    assert {r.rollout_id: r.value for r in Reward.objects.filter(scorer="ranking")} == {
        first: 0.5,
        second: 1.0,
        third: 0.0,
    }
    assert Group.objects.get(pk=item.group_id).state == Group.State.JUDGED


def test_repeated_uuid_is_the_same_rating(held, bob):
    item = held()
    said = answer_to(item, {"stars": 4})
    first = submit(bob, item.slot_id, said)
    second = submit(bob, item.slot_id, said)
    assert (first.rating_id, first.is_new, second.is_new) == (second.rating_id, True, False)
    assert Rating.objects.count() == Reward.objects.filter(source="human").count() == 1


def test_second_window_cannot_rate_the_item_again(held, bob):
    item = held()
    submit(bob, item.slot_id, answer_to(item, {"stars": 4}))
    with pytest.raises(Refused, match="already") as refused:
        submit(bob, item.slot_id, answer_to(item, {"stars": 1}))
    assert refused.value.code == "decided" and Rating.objects.count() == 1


def test_changed_rating_refers_to_the_rating_it_replaces(held, bob):
    item = held()
    first = answer_to(item, {"stars": 4})
    submit(bob, item.slot_id, first)
    submit(bob, item.slot_id, answer_to(item, {"stars": 1}, replaces=first.client_uuid))
    old, new = Rating.objects.order_by("pk")
    assert (old.is_current, new.is_current, new.replaces) == (False, True, old)
    assert [r.value for r in Reward.objects.filter(source="human", is_current=True)] == [0.0]


def test_uuid_used_for_another_item_is_rejected(held, bob):
    item = held()
    said = answer_to(item, {"stars": 4})
    submit(bob, item.slot_id, said)
    (other,) = claim(bob)
    with pytest.raises(Refused) as refused:
        submit(bob, other.slot_id, answer_to(other, {"stars": 2}, client_uuid=said.client_uuid))
    assert refused.value.code == "used_uuid"


def test_rating_is_rejected_after_another_rater_claimed_the_item(held, alice, bob):
    item = held()
    shift(item.slot_id, 121)
    Slot.objects.expire()
    claim(alice, count=4)
    with pytest.raises(Refused, match="Another rater has this item now") as refused:
        submit(bob, item.slot_id, answer_to(item, {"stars": 4}))
    assert refused.value.code == "lease_lost" and not Rating.objects.exists()


def test_late_rating_is_accepted_if_nobody_else_claimed_the_item(held, bob):
    item = held()
    shift(item.slot_id, 121)
    Slot.objects.expire()
    assert submit(bob, item.slot_id, answer_to(item, {"stars": 4})).is_new


def test_rating_after_its_group_was_admitted_is_stored_as_late(held, bob):
    item = held()
    Group.objects.filter(pk=item.group_id).update(state="admitted")
    assert submit(bob, item.slot_id, answer_to(item, {"stars": 4})).is_late
    assert Rating.objects.get().is_late


def test_item_changed_meanwhile_is_stale(held, bob):
    item = held()
    Item.objects.filter(pk=item.item_id).update(version=2)
    with pytest.raises(Refused) as refused:
        submit(bob, item.slot_id, answer_to(item, {"stars": 4}))
    assert refused.value.code == "stale"


def test_rater_who_edited_the_reply_meanwhile_cannot_rate_it(held, bob):
    item = held()
    Intervention.objects.create(
        rollout_id=item.shown[0],
        by=bob,
        kind="edit",
        text="mine",
        state="done",
        client_uuid=uuid.uuid4(),
    )
    with pytest.raises(Refused) as refused:
        submit(bob, item.slot_id, answer_to(item, {"stars": 5}))
    assert refused.value.code == "own_output"


def test_item_does_not_exist_for_a_stranger(held, carol):
    item = held()
    with pytest.raises(Refused) as refused:
        submit(carol, item.slot_id, answer_to(item, {"stars": 5}))
    assert refused.value.code == "gone"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"answer": {"stars": 6}}, "stars"),
        ({"answer": {"stars": True}}, "stars"),
        ({"form": "thumbs", "answer": {"up": True}}, "form"),
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"critique": "x" * 1_000_000}, "critique"),
        ({"changes": -1}, "changes"),
    ],
)
def test_value_outside_the_scale_is_reported_by_field(held, bob, changes, field):
    item = held()
    with pytest.raises(BadAnswer) as bad:
        submit(bob, item.slot_id, answer_to(item, **{"answer": {"stars": 3}, **changes}))
    assert field in bad.value.problems and not Rating.objects.exists()


def test_flagged_reply_has_no_reward_but_a_reason(held, bob):
    item = held()
    submit(bob, item.slot_id, answer_to(item, {"reason": "cut off"}, form="flag"))
    reward = Reward.objects.get(scorer="flag")
    assert reward.value is None and "cut off" in reward.reason


def test_a_rewrite_becomes_a_demonstration_and_a_preference(held, bob):
    item = held(form="rewrite", at_deadline="machine_only")
    submit(bob, item.slot_id, answer_to(item, {"text": "better"}))
    assert Demonstration.objects.get().answer == "better"
    preference = Preference.objects.get()
    assert (preference.chosen, preference.rejected) == ("better", item.members[0].text)


def test_claimed_reply_can_be_rewritten_in_addition_to_its_rating(held, bob):
    item = held()
    key = uuid.uuid4()
    first = demonstrate(bob, item.slot_id, item.fence, item.shown[0], key, "better")
    again = demonstrate(bob, item.slot_id, item.fence, item.shown[0], key, "better")
    assert (first.rating_id, again.is_new) == (again.rating_id, False)
    assert submit(bob, item.slot_id, answer_to(item, {"stars": 2})).is_new


def test_undone_rating_does_not_count_and_the_item_can_be_rated_again(held, bob):
    item = held()
    said = answer_to(item, {"stars": 4})
    submit(bob, item.slot_id, said)
    back, earlier = withdraw_decision(bob, said.client_uuid, uuid.uuid4())
    assert (back.slot_id, earlier.answer) == (item.slot_id, {"stars": 4})
    assert (
        not Rating.objects.counting().exists()
        and not Reward.objects.filter(source="human", is_current=True).exists()
    )
    submit(bob, back.slot_id, answer_to(back, {"stars": 2}))
    assert Rating.objects.counting().get().answer == {"stars": 2}
    assert Rating.objects.count() == 3


def test_only_the_last_ten_decisions_can_be_undone(new_run, finish, bob):
    ask(new_run(people=ASKING, groups_per_step=6), finish, groups=6)
    sent = []
    for _ in range(11):
        (item,) = claim(bob)
        sent.append(answer_to(item, {"stars": 3}))
        submit(bob, item.slot_id, sent[-1])
    with pytest.raises(Refused) as refused:
        withdraw_decision(bob, sent[0].client_uuid, uuid.uuid4())
    assert refused.value.code == "too_old"
    withdraw_decision(bob, sent[1].client_uuid, uuid.uuid4())


def test_person_cannot_undo_anothers_rating(held, alice, bob):
    item = held()
    said = answer_to(item, {"stars": 4})
    submit(bob, item.slot_id, said)
    with pytest.raises(Refused):
        withdraw_decision(alice, said.client_uuid, uuid.uuid4())


def test_rating_after_its_group_was_closed_is_late(held, bob):
    item = held()
    Group.objects.filter(pk=item.group_id).update(state="judged")
    assert submit(bob, item.slot_id, answer_to(item, {"stars": 4})).is_late


def test_one_of_several_replies_can_be_flagged(held, bob):
    item = held(("a", "b", "c"), form="ranking", per_group=3, anchor=False)
    submit(
        bob,
        item.slot_id,
        answer_to(item, {"reason": "cut off", "rollout": item.shown[1]}, form="flag"),
    )
    assert list(Reward.objects.filter(scorer="flag").values_list("rollout", "value")) == [
        (item.shown[1], None)
    ]


def test_stars_from_the_live_page_are_replaced_by_the_same_persons_rating(new_run, finish, bob):
    (group,) = finish(
        new_run(people={"per_group": 2, "deadline_s": 600, "overlap": 2}), ["one", "two"]
    )
    for rollout in group.rollouts.all():
        give(bob, Stars(rollout.pk, 1, uuid.uuid4()))
    hand_on([group])
    open_items([group])
    (item,) = claim(bob)
    Rating.objects.exclude(rollout=item.shown[0]).delete()
    submit(bob, item.slot_id, answer_to(item, {"stars": 4}))
    [rating] = Rating.objects.counting()
    assert (rating.answer, rating.replaces.answer, rating.replaces.item) == (
        {"stars": 4},
        {"stars": 1},
        None,
    )


def test_answer_to_a_changed_rubric_is_stale(held, alice, bob):
    scales = [{"name": "kind", "low": 0, "high": 3}]
    item = held(form="rubric", rubric=scales)
    Run.objects.get(pk=item.run_id).change_config(
        alice, people={"rubric": [{"name": "clear", "low": 0, "high": 3}]}
    )
    with pytest.raises(Refused) as refused:
        submit(bob, item.slot_id, answer_to(item, {"scales": {"kind": 2}}))
    assert refused.value.code == "stale"


def test_rewrite_with_a_used_uuid_is_rejected(held, bob):
    item = held()
    said = answer_to(item, {"stars": 2})
    submit(bob, item.slot_id, said)
    with pytest.raises(Refused) as refused:
        demonstrate(bob, item.slot_id, item.fence, item.shown[0], said.client_uuid, "better")
    assert refused.value.code == "used_uuid"
