"""Adjudicating a dispute: one rating, written once, that counts from then on and changes nothing
already trained.
"""

import uuid

import pytest

from apps.accounts.models import AuditEntry
from apps.feedback.claiming import claim
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Adjudication, Item, Rating, Slot
from apps.feedback.ratings.adjudication import adjudicate
from apps.feedback.ratings.answers import Refused
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from tests.feedback.asking import ask
from tests.feedback.quality.deciding import decide, rater
from workers.refiner import serve

pytestmark = pytest.mark.django_db


@pytest.fixture
def disputed(new_run, finish, project):
    """Return a function that creates a run on whose items ann and ben disagree completely; `wanted`
    is the number of raters.
    """

    def make(wanted=2):
        run = new_run(
            people={"per_group": 2, "deadline_s": 6000, "overlap": wanted, "open_claims": 100}
        )
        ask(run, finish, ["one", "two"])
        decide(rater(project, "ann"), run, lambda _: {"stars": 5})
        decide(rater(project, "ben"), run, lambda _: {"stars": 1})
        return run, Item.objects.filter(run=run).order_by("pk").first()

    return make


def settle(item, by, answer=None, form="stars", **changes):
    return adjudicate(
        item.pk,
        by,
        form,
        answer or {"stars": 4},
        changes.pop("client_uuid", None) or uuid.uuid4(),
        **changes,
    )


def test_adjudicated_rating_becomes_the_reward_and_the_item_is_not_shown_again(
    disputed, project, alice
):
    run, item = disputed(wanted=3)
    assert not settle(item, alice).is_late
    assert decide(rater(project, "cem"), run, lambda _: {"stars": 3}) == 1, (
        "the adjudicated item is not shown again"
    )
    serve()
    rewards = dict(
        Reward.objects.filter(rollout__run=run, scorer="people").values_list("rollout", "value")
    )
    assert rewards.pop(item.members[0]) == 0.75
    assert list(rewards.values()) == [0.5]


def test_adjudication_leaves_the_votes_unchanged(disputed, alice):
    _, item = disputed()
    before = list(item.ratings.order_by("pk").values("pk", "answer", "is_current", "is_withdrawn"))
    settle(item, alice, critique="Polite enough.")
    assert (
        list(
            item.ratings.exclude(rater=alice)
            .order_by("pk")
            .values("pk", "answer", "is_current", "is_withdrawn")
        )
        == before
    )
    assert Adjudication.objects.get(item=item).rating.critique == "Polite enough."


def test_adjudication_sent_twice_is_recorded_once(disputed, alice):
    _, item = disputed()
    same = uuid.uuid4()
    first = settle(item, alice, client_uuid=same)
    second = settle(item, alice, client_uuid=same)
    assert AuditEntry.objects.get(action="dispute settled").by == alice
    assert first.adjudication == second.adjudication
    assert Rating.objects.filter(item=item, rater=alice).count() == 1


def test_uuid_of_another_adjudication_is_rejected_and_nothing_is_stored(disputed, alice):
    run, item = disputed()
    other = Item.objects.filter(run=run).order_by("pk").last()
    used = uuid.uuid4()
    settle(other, alice, client_uuid=used)
    with pytest.raises(Refused) as refused:
        settle(item, alice, client_uuid=used)
    assert refused.value.code == "used_uuid"
    assert (
        Adjudication.objects.get().item == other and not item.ratings.filter(rater=alice).exists()
    )


def test_second_adjudication_replaces_the_first(disputed, alice):
    _, item = disputed()
    first = settle(item, alice).adjudication.rating_id
    second = settle(item, alice, {"stars": 2}).adjudication
    assert Adjudication.objects.get(item=item).rating == second.rating
    assert second.rating.replaces_id == first and not Rating.objects.get(pk=first).is_current


def test_adjudicating_all_items_closes_their_slots_and_moves_the_group_on(disputed, alice):
    run, item = disputed(wanted=3)
    for each in Item.objects.filter(run=run):
        settle(each, alice)
    assert not Slot.objects.filter(run=run, state="open").exists()
    assert Group.objects.get(pk=item.group_id).state == Group.State.JUDGED


def test_late_adjudication_does_not_change_existing_rewards(disputed, alice):
    _, item = disputed()
    serve()
    before = list(Reward.objects.filter(scorer="people").order_by("pk").values_list("pk", "value"))
    assert settle(item, alice).is_late
    serve()
    assert (
        list(Reward.objects.filter(scorer="people").order_by("pk").values_list("pk", "value"))
        == before
    )


def test_adjudication_can_be_a_flag(disputed, project, alice):
    run, item = disputed(wanted=3)
    settle(item, alice, {"reason": "cut off"}, "flag")
    decide(rater(project, "cem"), run, lambda _: {"stars": 3})
    serve()
    reward = Reward.objects.get(rollout=item.members[0], scorer="people")
    assert reward.value is None and "cut off" in reward.reason


def test_adjudicated_item_can_become_gold(disputed, alice):
    run, item = disputed()
    assert settle(item, alice, make_gold=True, explanation="It says sorry.").is_gold
    known = Item.objects.get(run=run, purpose="gold")
    assert (known.members, known.expected, known.explanation) == (
        item.members,
        {"stars": 4},
        "It says sorry.",
    )


@pytest.mark.parametrize(
    ("form", "answer", "field"),
    [("stars", {"stars": 6}, "stars"), ("thumbs", {"up": True}, "form"), ("stars", {}, "stars")],
)
def test_invalid_adjudication_is_rejected_and_nothing_is_stored(
    disputed, alice, form, answer, field
):
    _, item = disputed()
    with pytest.raises(BadAnswer) as refused:
        adjudicate(item.pk, alice, form, answer, uuid.uuid4())
    assert list(refused.value.problems) == [field]
    assert not Adjudication.objects.exists() and not Rating.objects.filter(rater=alice).exists()


def test_flag_cannot_become_gold_and_then_nothing_is_stored(disputed, alice):
    _, item = disputed()
    with pytest.raises(BadAnswer, match="gold"):
        settle(item, alice, {"reason": "cut off"}, "flag", make_gold=True)
    assert not claim(alice) and not Adjudication.objects.exists()
