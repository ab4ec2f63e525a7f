"""From few ratings to a reward for every rollout: each rating is learned once, predicted first, and
never overridden.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from apps.feedback.group_completion import close_overdue, settle_ready
from apps.feedback.models import Prediction, RaterModel, Rating
from apps.feedback.rater_model import learning
from apps.feedback.rater_model.learning import learn
from apps.feedback.rater_model.predicted_rewards import write_model_rewards
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.pipelines.refining import refine
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from tests.feedback.rater_model.conftest import TEXTS

pytestmark = pytest.mark.django_db


def judged() -> list[Group]:
    settle_ready()
    return Group.objects.claim(Group.State.JUDGED, "refiner", 60, 100)


def test_group_waits_until_the_model_has_enough_ratings(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=2)
    decide(bob, run, 3)
    assert not judged()
    decide(bob, run, 1)
    assert len(judged()) == 2


def test_every_rollout_gets_the_models_reward_beside_the_stars(modelled, put, decide, bob):
    run = modelled({"groups_per_step": 4})
    put(run, groups=4)
    decide(bob, run)
    put(run, groups=1)
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    close_overdue()
    groups = judged()
    write_model_rewards(groups)
    filled = Reward.objects.filter(scorer="rater_model")
    assert filled.count() == 10 and Reward.objects.filter(source="human").count() == 8
    assert {(reward.source, reward.details["rater_model"]) for reward in filled} == {("model", 1)}
    assert all(reward.uncertainty > 0 for reward in filled)
    polite = filled.filter(rollout__text=TEXTS[0]).values_list("value", flat=True)
    rude = filled.filter(rollout__text=TEXTS[1]).values_list("value", flat=True)
    assert min(polite) > max(rude) + 0.3


def test_model_reward_is_used_in_training(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=4)
    decide(bob, run)
    groups = judged()
    write_model_rewards(groups)
    assert refine(groups) == 4
    by_model = dict(Reward.objects.filter(scorer="rater_model").values_list("rollout", "value"))
    trained = {
        rollout: reward
        for group in groups
        for rollout, reward in group.experiences.values_list("rollout", "reward")
    }
    assert trained == pytest.approx(by_model)


def test_pessimism_subtracts_that_many_deviations(modelled, put, decide, bob):
    run = modelled(rater_model={"pessimism": 2.0, "repeats": 0})
    put(run, groups=2)
    decide(bob, run)
    write_model_rewards(judged())
    for reward in Reward.objects.filter(scorer="rater_model"):
        assert reward.value == pytest.approx(reward.details["mean"] - 2 * reward.uncertainty)


def test_new_ratings_are_predicted_before_they_are_learned(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=2)
    first = decide(bob, run)
    learn(run)
    assert not Prediction.objects.exists()
    put(run, groups=1)
    later = decide(bob, run)
    learn(run)
    assert [model.decisions for model in RaterModel.objects.order_by("number")] == [
        len(first),
        len(first) + len(later),
    ]
    foretold = list(Prediction.objects.order_by("rating"))
    assert [p.rating_id for p in foretold] == [rating.pk for rating in later]
    assert {(p.rater_model.number, p.is_audit) for p in foretold} == {(1, True)}


def test_without_new_ratings_no_model_is_fitted(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=2)
    decide(bob, run)
    learn(run)
    learn(run)
    assert RaterModel.objects.count() == 1


def test_restarted_process_makes_the_same_predictions(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=2)
    decide(bob, run)
    rollouts = list(Rollout.objects.values_list("pk", flat=True))
    before = learning.predicted(run, learn(run), rollouts)
    learning.clear_learning_state()
    again = learn(run)
    after = learning.predicted(run, again, rollouts)
    assert RaterModel.objects.count() == 1
    assert [after[pk] for pk in rollouts] == [pytest.approx(before[pk]) for pk in rollouts]


def test_withdrawn_rating_is_unlearned(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=2)
    taken = decide(bob, run)
    learn(run)
    withdraw_decision(bob, taken[-1].client_uuid, "7f4a3f0e-0000-4000-8000-000000000000")
    known = learn(run)
    assert known.learner.decisions == len(taken) - 1
    fitted = known.learner.fit().coefficients()
    learning.clear_learning_state()
    assert learn(run).learner.fit().coefficients() == fitted


def test_a_late_rating_is_learned_too(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=3)
    decide(bob, run, 4)
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    held = None

    def slowly(item):
        nonlocal held
        held = item
        close_overdue()
        groups = Group.objects.claim(Group.State.JUDGED, "refiner", 60, 100)
        write_model_rewards(groups)
        refine(groups)
        return {"stars": 3}

    decide(bob, run, 1, slowly)
    assert Rating.objects.latest("pk").is_late
    assert learn(run).learner.decisions == 5


def test_group_at_its_deadline_gets_rewards_from_the_model(modelled, put, decide, bob):
    run = modelled(schedule={"decisions": 50, "min_initial_ratings": 8})
    put(run, groups=4)
    decide(bob, run, 5)
    assert not judged()
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    assert close_overdue() == 4
    groups = Group.objects.claim(Group.State.JUDGED, "refiner", 60, 100)
    write_model_rewards(groups)
    assert refine(groups) == 4


def test_group_that_the_model_cannot_rate_is_dropped_with_the_reason(modelled, put, decide, bob):
    run = modelled()
    (group,) = put(run)
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    close_overdue()
    groups = Group.objects.claim(Group.State.JUDGED, "refiner", 60, 100)
    write_model_rewards(groups)
    assert refine(groups) == 0
    reasons = set(Reward.objects.filter(scorer="rater_model").values_list("reason", flat=True))
    assert reasons == {"the rater model has learned 0 ratings; it needs 4"}
    group.refresh_from_db()
    assert group.state == Group.State.DROPPED


def test_rollout_without_a_surprise_value_has_no_reward(modelled, put, decide, bob):
    run = modelled(per_group=1)
    put(run, groups=4)
    decide(bob, run)
    rollout = Rollout.objects.filter(ratings=None).first()
    rollout.surprise.delete()
    write_model_rewards(judged())
    reward = rollout.rewards.get(scorer="rater_model")
    assert reward.value is None and "surprise" in reward.reason


def by_id(held) -> tuple[int, int]:
    """Return the ids of the polite and the rude one of two."""
    polite, rude = sorted(held.members, key=lambda member: "thank" not in member.text)
    return polite.id, rude.id


def prefer(held) -> dict:
    return {"preference": -3 if held.members[0].id == by_id(held)[0] else 3}


def rank(held) -> dict:
    return {"ranks": {str(member): place for place, member in enumerate(by_id(held), start=1)}}


def pick(held) -> dict:
    return dict(zip(("best", "worst"), by_id(held), strict=True))


@pytest.mark.parametrize(
    ("form", "answer"), [("pairwise", prefer), ("ranking", rank), ("best_worst", pick)]
)
def test_comparisons_give_model_rewards_to_all_rollouts(modelled, put, decide, bob, form, answer):
    run = modelled({"groups_per_step": 4}, form=form)
    put(run, groups=5)
    assert len(decide(bob, run, answer=answer)) == 5
    write_model_rewards(judged())
    filled = Reward.objects.filter(scorer="rater_model")
    polite, rude = (
        filled.filter(rollout__text=text).values_list("value", flat=True) for text in TEXTS
    )
    assert filled.count() == 10 and min(polite) > max(rude)


def test_comparisons_are_predicted_by_their_order(modelled, put, decide, bob):
    run = modelled({"groups_per_step": 4}, form="pairwise")
    put(run, groups=6)
    decide(bob, run, 5, prefer)
    learn(run)
    decide(bob, run, 1, lambda held: {"preference": -prefer(held)["preference"]})
    learn(run)
    assert Prediction.objects.get().mean == 0.0


@pytest.mark.django_db(transaction=True)
def test_two_refiners_at_once_fit_one_model(modelled, put, decide, bob):
    run = modelled()
    put(run, groups=2)
    decide(bob, run)

    def refiner(_) -> int:
        try:
            return learn(run).number
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(refiner, range(2))) == [1, 1]
    assert RaterModel.objects.count() == 1


def test_failed_fit_is_repeated(modelled, put, decide, bob, monkeypatch):
    run = modelled()
    put(run, groups=2)
    decide(bob, run)
    monkeypatch.setattr(learning, "standing", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learn(run)
    monkeypatch.undo()
    assert learn(run).learner.decisions == 4 and RaterModel.objects.get().decisions == 4
