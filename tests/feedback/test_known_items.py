"""Items with a known answer: created from the run's replies, mixed in at the run's rate, and not
recognizable before.
"""

import uuid

import pytest

from apps.accounts.models import AuditEntry, User
from apps.feedback import known_items
from apps.feedback.claiming import claim
from apps.feedback.claiming import give_back_item as give_back
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Item, Slot
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.items import submit
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

ALWAYS = {"rate": 1.0}
NEVER = {"rate": 0.0}


@pytest.fixture
def asking(new_run, finish):
    """Return a function that creates a run with waiting groups and one gold item on a reply of its
    first group.
    """

    def make(share: dict = ALWAYS, groups: int = 3, **people: object) -> tuple[Run, Item]:
        run = new_run(
            people={"per_group": 2, "deadline_s": 600, "gold": share, "open_claims": 100, **people}
        )
        ask(run, finish, groups=groups)
        return run, known(run)

    return make


def known(run: Run, purpose: str = "gold", stars: int = 5) -> Item:
    [rollout] = known_items.candidates(run, [Rollout.objects.filter(run=run).first().pk])
    return known_items.create_known_item(
        run, [rollout], purpose, {"stars": stars}, "It is polite.", maker()
    )


def maker() -> User:
    return User.objects.get_or_create(username="alice")[0]


def purposes(held) -> list[str]:
    return [Item.objects.get(pk=item.item_id).purpose for item in held]


def test_gold_item_replaces_another_item_and_looks_like_any(asking, bob):
    run, item = asking()
    [held] = claim(bob, run.pk)
    assert held.item_id == item.pk and held.form == "stars" and held.lease_s > 0
    assert Slot.objects.filter(run=run, state="held").count() == 1, (
        "the replaced item is still open"
    )


def test_person_gets_a_gold_item_once(asking, bob):
    run, item = asking()
    first, *others = [held for _ in range(4) for held in claim(bob, run.pk)]
    assert (
        first.item_id == item.pk
        and item.pk not in [held.item_id for held in others]
        and len(others) == 3
    )


def test_each_person_gets_the_gold_item(asking, alice, bob):
    run, item = asking()
    assert [held.item_id for person in (alice, bob) for held in claim(person, run.pk)] == [
        item.pk,
        item.pk,
    ]


def test_rate_of_zero_gives_no_gold_items(asking, bob):
    run, _ = asking(NEVER)
    assert purposes(claim(bob, run.pk, 6)) == ["reward"] * 6


def test_attention_checks_have_a_rate_of_their_own(asking, bob):
    run, _ = asking({"rate": 0.0, "attention": 1.0})
    check = known(run, "attention", stars=1)
    assert [held.item_id for held in claim(bob, run.pk)] == [check.pk]


def test_no_gold_item_comes_when_no_item_waits(asking, bob):
    run, _ = asking()
    Slot.objects.filter(run=run).update(state="closed")
    assert claim(bob, run.pk) == []


def test_gold_item_of_another_form_is_not_shown(asking, bob, alice):
    run, _ = asking()
    run.change_config(alice, people={"form": "thumbs"})
    assert purposes(claim(bob, run.pk)) == ["reward"]


def test_gold_rate_is_a_share_of_claimed_items(asking, bob, finish):
    run, _ = asking({"rate": 0.25}, groups=2, per_group=2)
    for _ in range(60):
        known(run)
    met = 0
    for _ in range(200):
        [held] = claim(bob, run.pk)
        met += Item.objects.get(pk=held.item_id).purpose == "gold"
        give_back(bob, held.slot_id, held.fence)
        Slot.objects.filter(pk=held.slot_id, is_required=False).delete()
    assert 25 <= met <= 78, f"{met} of 200 at a rate of a quarter: more than four deviations off"


def test_answer_to_a_gold_item_creates_no_reward_and_closes_no_group(asking, bob):
    run, item = asking(groups=1)
    [held] = claim(bob, run.pk)
    submit(bob, held.slot_id, answer_to(held, {"stars": 4}))
    assert not Reward.objects.filter(by=bob).exists()
    assert Group.objects.get(run=run).state == "waiting"
    item.refresh_from_db()
    assert item.state == "open", "it stays open for the next person"


@pytest.mark.parametrize(("stars", "is_met"), [(5, True), (4, True), (3, False), (1, False)])
def test_rater_sees_the_expected_answer_when_feedback_is_on(asking, bob, stars, is_met):
    run, _ = asking({"rate": 1.0, "feedback": True})
    [held] = claim(bob, run.pk)
    taken = submit(bob, held.slot_id, answer_to(held, {"stars": stars}))
    assert taken.gold == {
        "met": is_met,
        "expected": {"stars": 5},
        "words": "5 of 5 stars",
        "explanation": "It is polite.",
    }


def test_rating_whose_expected_answer_was_shown_cannot_be_withdrawn(asking, bob):
    run, _ = asking({"rate": 1.0, "feedback": True})
    [held] = claim(bob, run.pk)
    said = answer_to(held, {"stars": 1})
    submit(bob, held.slot_id, said)
    with pytest.raises(Refused) as refused:
        withdraw_decision(bob, said.client_uuid, uuid.uuid4())
    assert refused.value.code == "told"
    with pytest.raises(Refused) as refused:
        submit(bob, held.slot_id, answer_to(held, {"stars": 5}, replaces=said.client_uuid))
    assert refused.value.code == "told"


def test_rater_sees_no_expected_answer_without_feedback(asking, bob):
    run, _ = asking()
    [held] = claim(bob, run.pk)
    assert submit(bob, held.slot_id, answer_to(held, {"stars": 1})).gold is None


def test_matching_answers_to_a_gold_item_are_counted(asking, alice, bob):
    run, item = asking()
    for person, stars in ((alice, 5), (bob, 1)):
        [held] = claim(person, run.pk)
        submit(person, held.slot_id, answer_to(held, {"stars": stars}))
    [known_item] = known_items.count_known_answers(run, [item])
    assert (known_item.answers, known_item.met, known_item.share) == (2, 1, 0.5)


def test_retired_item_is_not_shown_again_and_its_answers_stay(asking, alice, bob):
    run, item = asking()
    [held] = claim(alice, run.pk)
    submit(alice, held.slot_id, answer_to(held, {"stars": 5}))
    assert known_items.retire_known_item(item, alice) and not known_items.retire_known_item(
        Item.objects.get(pk=item.pk), alice
    )
    assert purposes(claim(bob, run.pk)) == ["reward"]
    assert known_items.count_known_answers(run, [item])[0].answers == 1


def test_gold_events_do_not_reveal_the_item(asking, alice):
    run, item = asking()
    known_items.retire_known_item(item, alice)
    events = list(run.topic.events.filter(kind__startswith="gold").values_list("kind", "payload"))
    assert [kind for kind, _ in events] == ["gold_made", "gold_retired"]
    assert all(payload == {"by": "alice"} for _, payload in events)


def test_creating_and_retiring_gold_are_recorded_in_the_audit_log(asking, alice):
    run, item = asking()
    known_items.retire_known_item(item, alice)
    known_items.retire_known_item(item, alice)
    acts = AuditEntry.objects.filter(project=run.project, target=run.address, by=alice).order_by(
        "pk"
    )
    assert list(acts.values_list("action", flat=True)) == ["gold made", "gold retired"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"raw": {"stars": 9}}, "stars"),
        ({"raw": {}}, "stars"),
        ({"purpose": "reward"}, "purpose"),
        ({"explanation": "x" * 2001}, "explanation"),
    ],
)
def test_invalid_gold_item_is_rejected_by_field(new_run, finish, changes, field):
    run = new_run(people={"per_group": 2})
    ask(run, finish)
    rollouts = known_items.candidates(run, [Rollout.objects.filter(run=run).first().pk])
    said = {"purpose": "gold", "raw": {"stars": 3}, "explanation": "", **changes}
    with pytest.raises(BadAnswer) as bad:
        known_items.create_known_item(
            run, rollouts, said["purpose"], said["raw"], said["explanation"], maker()
        )
    assert field in bad.value.problems and not Item.objects.exclude(purpose="reward").exists()


def test_replies_of_different_groups_cannot_form_a_known_item(new_run, finish):
    run = new_run(people={"per_group": 2})
    ask(run, finish, groups=2)
    with pytest.raises(BadAnswer, match="one group"):
        known_items.candidates(
            run, list(Rollout.objects.filter(run=run).values_list("pk", flat=True))
        )


def test_reply_of_another_run_cannot_form_a_known_item(new_run, finish):
    mine = new_run(people={"per_group": 2})
    other = new_run(people={"per_group": 2})
    ask(other, finish)
    with pytest.raises(BadAnswer, match="of this run"):
        known_items.candidates(mine, [Rollout.objects.filter(run=other).first().pk])


def test_text_form_has_no_expected_answer(new_run, finish):
    run = new_run(people={"per_group": 2, "form": "critique"})
    ask(run, finish)
    with pytest.raises(BadAnswer, match="no number"):
        known_items.expect(
            run, known_items.candidates(run, [Rollout.objects.filter(run=run).first().pk]), {}
        )


@pytest.mark.parametrize("feedback", [True, False])
def test_rater_sees_the_count_of_met_gold_items_only_with_feedback(client, asking, bob, feedback):
    run, _ = asking({"rate": 1.0, "feedback": feedback})
    known(run, stars=1)
    client.force_login(bob)
    assert 'data-gold=""' in client.get("/rate/").content.decode()
    for held in (claim(bob, run.pk)[0] for _ in range(2)):
        submit(bob, held.slot_id, answer_to(held, {"stars": 5}))
    assert f'data-gold="{"1 2" if feedback else ""}"' in client.get("/rate/").content.decode()
