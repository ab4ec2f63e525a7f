"""Ratings of the simulated rater are counted and shown as simulated, never as a person's."""

import uuid
from dataclasses import replace

import pytest
from django.db import connection
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.buffer.models import Experience
from apps.dashboard.human_cost_benefit import bought
from apps.dashboard.people_now import MAX_COUNTED, people_now
from apps.dashboard.templatetags.marks import chip
from apps.evaluation.results import _judge
from apps.feedback.aggregating import write_people_rewards
from apps.feedback.claiming import claim
from apps.feedback.exporting.rows import RowSelection, export_rows
from apps.feedback.item_opening import _rated
from apps.feedback.quality.decisions import newest_decisions
from apps.feedback.ratings.stars import Stars, give
from apps.feedback.suspicions.reading import _judgements
from apps.rewards.combining import peoples_word
from apps.rewards.judgements import load_judgements
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep
from rftweb.sql.making import make_views
from tests.feedback.asking import ask
from tests.feedback.test_aggregating import decide
from workers.trainer import metrics

pytestmark = pytest.mark.django_db
STARS = {"stars": 5}


@pytest.fixture
def sim(project) -> User:
    user = User.objects.create(username="simulated-rater", is_simulated=True)
    Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
    return user


@pytest.fixture
def judged(new_run, finish, bob, sim) -> Run:
    """Create two groups of two: one rated by bob and the simulated rater, one only by the simulated
    rater.
    """
    people = {"per_group": 2, "overlap": 2, "deadline_s": 600, "open_claims": 100}
    run = new_run(group_size=2, max_staleness=8, people=people)
    ask(run, finish, ["one", "two"], groups=1)
    decide(bob, run, STARS)
    decide(sim, run, {"stars": 1})
    run.change_config(None, people={"overlap": 1})
    ask(run, finish, ["three", "four"], groups=1)
    decide(sim, run, {"stars": 1})
    write_people_rewards(list(Group.objects.filter(run=run).select_related("run")))
    return run


def together(run: Run, nth: int) -> list[Reward]:
    group = Group.objects.filter(run=run).order_by("pk")[nth]
    return list(Reward.objects.filter(rollout__group=group, scorer="people").order_by("pk"))


def test_combined_reward_shows_how_many_of_its_ratings_are_simulated(judged):
    for reward in together(judged, 0):
        assert (reward.kind, reward.is_simulated) == ("human", False)
        assert reward.kind_label == "Human, 1 of 2 ratings simulated"
    for reward in together(judged, 1):
        assert (reward.kind, reward.kind_label) == ("simulated", "Simulated rater, not a person")


def test_rewards_are_split_into_those_of_people_and_simulated_ones(judged, bob, sim):
    by_people = Reward.objects.by_people().filter(rollout__run=judged)
    simulated = Reward.objects.simulated().filter(rollout__run=judged)
    human = Reward.objects.filter(rollout__run=judged, source="human")
    assert set(by_people) | set(simulated) == set(human) and not set(by_people) & set(simulated)
    assert {reward.by for reward in by_people} == {bob, None}
    assert {reward.by for reward in simulated} == {sim, None}


def test_chip_of_a_simulated_rating_is_marked_as_simulated(judged, bob, sim):
    ones = {one.by: chip(one) for one in Reward.objects.exclude(by=None).select_related("by")}
    assert 'class="chip human' in ones[bob] and "simulated" not in ones[bob]
    assert 'class="chip simulated' in ones[sim] and "not a person" in ones[sim]
    alone = chip(together(judged, 1)[0])
    assert 'class="chip simulated' in alone and "people" not in alone


def test_step_metrics_separate_people_from_the_simulated_rater(judged):
    batch = [
        Experience(run=judged, rollout=one, group=one.group, reward=0.5, weight_version=0)
        for one in Rollout.objects.filter(run=judged).select_related("group")
    ]
    found = metrics.compute_batch_metrics(judged, TrainStep(run=judged, number=1, version=0), batch)
    assert (found["reward_human"], found["reward_simulated"]) == (1.0, 0.0)
    assert (found["people_share"], found["simulated_share"]) == (0.5, 1.0)


def test_counts_of_people_exclude_the_simulated_rater(judged):
    now = people_now(judged)
    assert (now.hourly, now.hourly_simulated) == (2, 4)
    assert (now.hourly_words, now.simulated_words) == ("2", "4")
    busy = replace(now, hourly_simulated=MAX_COUNTED - 2)  # as many as are counted
    assert (busy.hourly_words, busy.simulated_words) == ("2 or more", "998 or more")
    found = bought(judged, newest_decisions(judged))
    assert (found.people.decisions, found.simulated.decisions, found.judged) == (2, 4, 2)
    assert [gap.people for gap in found.parting.widest] == [1.0, 1.0]


def test_suspicion_compares_the_reward_only_with_ratings_by_people(judged):
    rollouts = list(Rollout.objects.filter(run=judged).order_by("pk").values_list("pk", flat=True))
    found = {pk: peoples_word(said) for pk, said in _judgements(rollouts).items()}
    counted = {}
    for rating in judged.ratings.select_related("rater"):
        if not rating.rater.is_simulated:
            counted[rating.rollout_id or rating.shown[0]] = (rating.answer["stars"] - 1) / 4
    assert {pk: word for pk, word in found.items() if word is not None} == counted
    assert len(counted) == 2


def test_simulated_ratings_do_not_count_towards_the_ratings_a_group_needs(judged):
    groups = list(Group.objects.filter(run=judged).order_by("pk"))
    counted = {group.pk: {} for group in groups}
    for rating in judged.ratings.select_related("rater", "rollout", "item"):
        home = rating.item.group_id
        if rating.rollout_id and not rating.rater.is_simulated:
            counted[home][rating.rollout_id] = counted[home].get(rating.rollout_id, 0) + 1
    assert {pk: dict(_rated(groups)[pk]) for pk in counted} == counted


def test_simulated_holder_of_an_item_is_marked_as_simulated(judged, finish, sim):
    ask(judged, finish, ["five", "six"], groups=1)
    assert claim(sim, judged.pk)
    assert people_now(judged).names == ("simulated-rater (simulated)",)


def test_group_export_has_a_separate_column_for_simulated_rewards(judged):
    Group.objects.filter(run=judged).update(state="admitted", reason="")
    first, second = export_rows("groups", RowSelection(judged))
    assert first["people"] == [1.0, 1.0] and first["simulated"] == [0.0, 0.0]
    assert second["people"] == [None, None] and second["simulated"] == [0.0, 0.0]


def test_the_quality_page_counts_people_and_the_simulated_rater(client, alice, judged):
    client.force_login(alice)
    html = client.get(reverse("run-quality", args=["lab", judged.slug])).content.decode()
    assert "6 ratings by 1 person and 1 simulated rater" in html


def test_stars_of_the_simulated_rater_become_a_simulated_reward(run, finish, sim):
    (group,) = finish(run, ["12345"])
    rating = give(sim, Stars(group.rollouts.first().pk, 4, uuid.uuid4()))
    reward = Reward.objects.select_related("by").get(rollout=rating.rollout)
    assert (reward.kind, reward.is_simulated) == ("simulated", True)


def test_sql_views_say_which_rewards_are_simulated(judged):
    make_views()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT scorer, by, is_simulated FROM reporting.rewards WHERE source = 'human' "
            "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        found = cursor.fetchall()
    assert found == [
        ("people", None, False),
        ("people", None, True),
        ("stars", "bob", False),
        ("stars", "simulated-rater", True),
    ]


def test_evaluation_rewards_name_the_simulated_rater(judged):
    rollouts = list(Rollout.objects.filter(run=judged).order_by("pk").values_list("pk", flat=True))
    said = load_judgements(rollouts)
    names = [sorted({_judge(one) for one in said[pk] if one.is_human}) for pk in rollouts]
    assert names == [["people", "simulated"]] * 2 + [["simulated"]] * 2
