"""Where a run asks about disagreements, what the rater model foretells of a reply stands for people
who have not spoken yet.
"""

import pytest

from apps.feedback.calibration.ordering import distances, reorder
from apps.feedback.claiming import claim
from apps.feedback.rater_model.learning import learn
from apps.rewards.models import Reward
from tests.feedback.rater_model.conftest import TEXTS


@pytest.mark.django_db
def test_a_reply_that_its_scorer_praises_and_the_model_does_not_comes_first(
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
