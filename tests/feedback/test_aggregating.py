"""The reward from people for a rated group: created once, from current ratings, by the run's rule,
and used in training.
"""

import itertools
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Membership, User
from apps.buffer.models import Experience
from apps.feedback import rater_quality
from apps.feedback.aggregating import write_people_rewards
from apps.feedback.claiming import claim
from apps.feedback.models import Adjudication, Item, Rating
from apps.feedback.ratings.items import submit
from apps.feedback.ratings.stars import Stars, give
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask
from workers.refiner import serve

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def forget():
    rater_quality.clear_quality_cache()


@pytest.fixture
def asked(new_run, finish):
    """Return a function that creates a run with waiting groups; keywords replace fields of its
    `people`.
    """

    def make(texts=("one", "two"), groups=1, **people):
        run = new_run(
            group_size=len(texts),
            max_staleness=8,
            people={"per_group": 2, "deadline_s": 600, "open_claims": 100, **people},
        )
        return run, ask(run, finish, list(texts), groups=groups)

    return make


def decide(user, run, *answers, **changes):
    """Let the user answer items with these answers in order; the last one is used for all that
    follow.
    """
    ratings = []
    for answer in itertools.chain(answers, itertools.repeat(answers[-1])):
        held = claim(user, run.pk)
        if not held:
            return ratings
        said = answer(held[0]) if callable(answer) else answer
        ratings.append(submit(user, held[0].slot_id, answer_to(held[0], said, **changes)).rating_id)


def rater_named(project, name):
    user = User.objects.create_user(name)
    Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
    return user


def judged(run):
    return list(Group.objects.filter(run=run, state=Group.State.JUDGED).select_related("run"))


def peoples(run):
    """Return people's rewards of the run by rollout."""
    return {
        reward.rollout_id: reward
        for reward in Reward.objects.filter(rollout__run=run, scorer="people")
    }


def test_two_peoples_stars_become_their_mean_with_its_error(asked, alice, bob):
    run, _ = asked(overlap=2)
    ratings = decide(alice, run, {"stars": 5}) + decide(bob, run, {"stars": 3})
    write_people_rewards(judged(run))
    found = peoples(run)
    assert {reward.value for reward in found.values()} == {0.75} and len(found) == 2
    for rollout, reward in found.items():
        assert reward.uncertainty == pytest.approx(0.25)
        assert (reward.source, reward.by, reward.details["rule"]) == ("human", None, "mean")
        assert reward.details["ratings"] == [
            pk for pk in ratings if Rating.objects.get(pk=pk).rollout_id == rollout
        ]


def test_refiner_creates_experiences_from_the_combined_rewards(asked, alice, bob):
    run, _ = asked(overlap=2)
    decide(alice, run, {"stars": 5}, {"stars": 1})
    decide(bob, run, {"stars": 5}, {"stars": 1})
    assert serve()
    by_rollout = {rollout: reward.value for rollout, reward in peoples(run).items()}
    assert len(by_rollout) == 2
    assert dict(Experience.objects.filter(run=run).values_list("rollout", "reward")) == by_rollout


def test_pairs_become_bradley_terry_strengths(asked, bob):
    run, _ = asked(("a", "b", "c"), form="pairwise", per_group=3, aggregation="bradley_terry")
    decide(bob, run, lambda held: {"preference": -2 if held.shown[0] < held.shown[1] else 2})
    write_people_rewards(judged(run))
    found = peoples(run)
    first, second, third = sorted(found)
    assert found[first].value > found[second].value > found[third].value
    assert all(reward.uncertainty > 0 for reward in found.values())
    assert found[second].value == pytest.approx(0.5)


def test_a_flag_leaves_the_rollout_without_a_reward(asked, bob):
    run, _ = asked()
    [flagged] = claim(bob, run.pk)
    submit(bob, flagged.slot_id, answer_to(flagged, {"reason": "cut off"}, form="flag"))
    decide(bob, run, {"stars": 5})
    write_people_rewards(judged(run))
    found = peoples(run)
    broken = found[flagged.shown[0]]
    assert broken.value is None and broken.reason == "flagged as broken: cut off"
    assert [reward.value for reward in found.values() if reward != broken] == [1.0]


def test_flagged_rollout_is_not_trained_on_despite_its_scorer(asked, bob):
    run, _ = asked(("a", "b", "c"), per_group=3)
    [flagged] = claim(bob, run.pk)
    submit(bob, flagged.slot_id, answer_to(flagged, {"reason": "cut off"}, form="flag"))
    decide(bob, run, {"stars": 5}, {"stars": 1})
    assert serve()
    learned = set(Experience.objects.filter(run=run).values_list("rollout", flat=True))
    assert len(learned) == 2 and flagged.shown[0] not in learned


def test_withdrawn_rating_does_not_count(asked, bob):
    run, _ = asked()
    first, last = claim(bob, run.pk, 2)
    said = answer_to(first, {"stars": 5})
    submit(bob, first.slot_id, said)
    again, _ = withdraw_decision(bob, said.client_uuid, uuid.uuid4())
    submit(bob, again.slot_id, answer_to(again, {"stars": 1}))
    submit(bob, last.slot_id, answer_to(last, {"stars": 2}))
    write_people_rewards(judged(run))
    assert {rollout: reward.value for rollout, reward in peoples(run).items()} == {
        first.shown[0]: 0.0,
        last.shown[0]: 0.25,
    }


@pytest.mark.parametrize("purpose", ["gold", "attention"])
def test_answer_to_a_known_item_creates_no_reward(asked, bob, purpose):
    run, [group] = asked()
    rollout = Rollout.objects.filter(group=group).first()
    item = Item.objects.create(
        run=run,
        group=group,
        form="stars",
        purpose=purpose,
        members=[rollout.pk],
        expected={"stars": 5},
    )
    Rating.objects.create(
        item=item,
        rollout=rollout,
        run=run,
        rater=bob,
        form="stars",
        answer={"stars": 1},
        shown=[rollout.pk],
        client_uuid=uuid.uuid4(),
    )
    write_people_rewards([group])
    assert peoples(run) == {}


def test_stars_given_on_the_live_page_count(asked, alice):
    run, [group] = asked()
    rollout = Rollout.objects.filter(group=group).first()
    give(alice, Stars(rollout.pk, 4, uuid.uuid4()))
    write_people_rewards([Group.objects.select_related("run").get(pk=group.pk)])
    assert {pk: reward.value for pk, reward in peoples(run).items()} == {rollout.pk: 0.75}


def test_late_rating_changes_no_reward(asked, alice, bob):
    run, [group] = asked()
    decide(bob, run, {"stars": 5}, {"stars": 1})
    serve()
    before = {rollout: (reward.pk, reward.value) for rollout, reward in peoples(run).items()}
    run.config["people"]["overlap"] = 2  # now another person may rate the same reply
    Run.objects.update(config=run.config)
    rating = give(alice, Stars(next(iter(before)), 3, uuid.uuid4()))
    assert rating.is_late
    write_people_rewards([Group.objects.select_related("run").get(pk=group.pk)])
    assert {
        rollout: (reward.pk, reward.value) for rollout, reward in peoples(run).items()
    } == before


def test_only_the_adjudicating_rating_of_a_dispute_counts(asked, alice, bob):
    run, [group] = asked(overlap=2)
    decide(alice, run, {"stars": 1})
    decide(bob, run, {"stars": 5})
    settled = Item.objects.filter(group=group).first()
    Adjudication.objects.create(item=settled, rating=settled.ratings.get(rater=bob))
    write_people_rewards(judged(run))
    values = {rollout: reward.value for rollout, reward in peoples(run).items()}
    assert values.pop(settled.members[0]) == 1.0
    assert list(values.values()) == [0.5]


def test_consistent_raters_have_more_weight(asked, project, alice):
    """Let Ann and Ben agree in many groups while Cem rates at random, and compare their weights."""
    ann, ben, cem = (rater_named(project, name) for name in ("ann", "ben", "cem"))
    run, _ = asked(groups=6, overlap=3, aggregation="weighted", deadline_s=6000)

    def by_text(held):
        return {"stars": 5 if held.members[0].text == "one" else 2}

    def nonsense(held):
        return {
            "stars": [1, 5, 5, 1, 3][
                (held.draw_index + 2 * held.members[0].rollout.sample_index) % 5
            ]
        }

    decide(ann, run, by_text)
    decide(ben, run, by_text)
    decide(cem, run, nonsense)
    write_people_rewards(judged(run))
    quality = rater_quality.load_quality(run, "stars", run.settings.people)
    assert quality.variance[cem.pk] > 5 * quality.variance[ann.pk]
    good = [r.value for pk, r in peoples(run).items() if Rollout.objects.get(pk=pk).text == "one"]
    plain = [
        sum(Rating.objects.filter(rollout=pk).values_list("answer__stars", flat=True)) / 12 - 0.25
        for pk in peoples(run)
        if Rollout.objects.get(pk=pk).text == "one"
    ]
    assert sum(good) / len(good) > sum(plain) / len(plain) + 0.05


def test_rater_quality_takes_one_query_per_load(asked, bob, django_assert_num_queries):
    run, _ = asked(aggregation="weighted")
    decide(bob, run, {"stars": 5})
    people = run.settings.people
    with django_assert_num_queries(1):
        rater_quality.load_quality(run, "stars", people)
    with django_assert_num_queries(1):
        rater_quality.load_quality(run, "stars", people)


def statements(groups):
    with CaptureQueriesContext(connection) as captured:
        write_people_rewards(groups)
    return len(captured)


@pytest.mark.parametrize("rule", ["mean", "weighted"])
def test_queries_do_not_grow_with_the_groups(asked, bob, rule):
    few, _ = asked(groups=1, aggregation=rule)
    many, _ = asked(groups=8, aggregation=rule)
    decide(bob, few, {"stars": 4})
    decide(bob, many, {"stars": 4})
    assert len(judged(many)) == 8
    rows = judged(few), judged(many)
    assert statements(rows[0]) == statements(rows[1]) <= 6
    assert len(peoples(many)) == 16


def test_groups_without_ratings_take_one_query_and_get_no_reward(asked):
    run, [group] = asked()
    assert statements([Group.objects.select_related("run").get(pk=group.pk)]) == 1
    assert peoples(run) == {}


def test_first_rating_of_a_closed_group_is_late_and_not_trained_on(asked, alice, bob):
    run, [group] = asked(("one", "two", "three"), per_group=3)
    [held] = claim(bob, run.pk)
    Group.objects.filter(pk=group.pk).update(state="judged")
    other = Rollout.objects.filter(group=group).exclude(pk__in=held.shown).first()
    assert submit(bob, held.slot_id, answer_to(held, {"stars": 5})).is_late
    assert give(alice, Stars(other.pk, 3, uuid.uuid4())).is_late
    assert [reward.is_late for reward in Reward.objects.filter(source="human")] == [True, True]
    assert serve()
    assert peoples(run) == {}
    assert (
        list(Experience.objects.filter(run=run).values_list("reward", flat=True)) == [0.0] * 3
    )  # the scorer's


def test_timely_rating_counts_even_if_it_is_changed_before_the_refiner_runs(asked, bob):
    run, [group] = asked()
    first, last = claim(bob, run.pk, 2)
    said = answer_to(first, {"stars": 5})
    submit(bob, first.slot_id, said)
    submit(bob, last.slot_id, answer_to(last, {"stars": 1}))
    assert Group.objects.get(pk=group.pk).state == Group.State.JUDGED
    again, _ = withdraw_decision(bob, said.client_uuid, uuid.uuid4())
    assert submit(bob, again.slot_id, answer_to(again, {"stars": 1})).is_late
    assert serve()
    learned = dict(Experience.objects.filter(run=run).values_list("rollout", "reward"))
    assert learned == {first.shown[0]: 1.0, last.shown[0]: 0.0}
