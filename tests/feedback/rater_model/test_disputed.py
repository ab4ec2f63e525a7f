"""In a run that asks about disagreements, the rater model's prediction stands in for people who
have not rated yet.
"""

import pytest

from apps.feedback.calibration.ordering import distances, reorder
from apps.feedback.claiming import claim
from apps.feedback.rater_model.learning import learn
from apps.rewards.models import Reward
from tests.feedback.rater_model.conftest import TEXTS


@pytest.mark.django_db
def test_reply_on_which_scorer_and_rater_model_differ_comes_first(
    modelled, put, decide, bob, project
):
    run = modelled(
        {"rewards": [{"scorer": "sort"}], "max_staleness": 50},
        ask_first="disagreement",
        open_claims=50,
    )
    put(run, groups=6)
    assert len(decide(bob, run)) == 12
    learn(run)
    [group] = put(run)
    polite, rude = group.rollouts.order_by("sample_index")
    assert (polite.text, rude.text) == tuple(TEXTS)
    Reward.objects.filter(rollout__group=group, scorer="sort").update(value=1.0)
    far = distances(run, [polite.pk, rude.pk])
    assert far[rude.pk] > 0.5 > far[polite.pk]
    assert reorder(run) == 2
    assert [held.shown for held in claim(bob, run.pk, count=2)] == [[rude.pk], [polite.pk]]
