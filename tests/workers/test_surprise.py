"""The base policy's surprise at finished rollouts: right numbers, kept before the group goes on, never instead of a failure."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from apps.feedback.models import Surprise
from apps.policies.models import Policy
from apps.rollouts.models import Group
from tests.workers.test_stations import fresh_workers  # noqa: F401
from tests.workers.trainer.conftest import base  # noqa: F401
from workers import scorer
from workers.surprise import Base

PEOPLE = {"per_group": 2, "at_deadline": "fill_with_rater_model", "rater_model": {}}


def slowly(model, prompt: list[int], completion: list[int]) -> list[float]:
    """One token at a time, each after a pass over what stands before it."""
    found = []
    for n, token in enumerate(completion):
        logits = model(input_ids=torch.tensor([[*prompt, *completion[:n]]])).logits[0, -1]
        found.append(-torch.log_softmax(logits.double(), 0)[token].item())
    return found


def test_surprises_are_those_of_one_token_at_a_time(base):  # noqa: F811
    rows = [((1, 2, 3), (4, 5)), ((1,), (2, 3, 4, 5, 6, 7)), ((3, 3), ()), ((2, 5, 1, 1), (9,))]
    model = AutoModelForCausalLM.from_pretrained(base, dtype="float32").eval()
    with torch.no_grad():
        right = [slowly(model, list(prompt), list(completion)) for prompt, completion in rows]
    assert [pytest.approx(own, abs=1e-5) for own in right] == Base(base).surprises(rows)


def test_many_rows_are_cut_into_passes(base, monkeypatch):  # noqa: F811
    rows = [((1, 2), tuple(range(1, n))) for n in range(2, 9)]
    policy = Base(base)
    together = policy.surprises(rows)
    monkeypatch.setattr("workers.surprise.TOKENS_AT_ONCE", 12)
    apart = policy.surprises(rows)
    assert [pytest.approx(own, abs=1e-5) for own in together] == apart


@pytest.fixture
def sampled(new_run, finish, policy, base):  # noqa: F811
    """Two finished replies of a run with a rater model, whose tokens the tiny policy knows."""
    Policy.objects.filter(pk=policy.pk).update(folder=str(base))

    def make(**changes) -> Group:
        (group,) = finish(new_run(**{"rewards": [], "people": PEOPLE, **changes}), ["\x05\x06\x07", "\x01\x02"])
        return group

    yield make
    scorer.base_policies.cache_clear()


def test_the_scorer_keeps_it_before_the_group_goes_on(sampled):
    group = sampled()
    assert scorer.serve()
    group.refresh_from_db()
    rows = Surprise.objects.filter(rollout__group=group)
    assert group.state == Group.State.WAITING and rows.count() == 2
    assert all(math.isfinite(row.mean) and row.worst >= row.mean > 0 for row in rows)


def test_runs_without_a_rater_model_load_no_base(sampled):
    sampled(rewards=[{"scorer": "sort"}], people={})
    scorer.serve()
    assert not Surprise.objects.exists() and not scorer.base_policies.cache_info().currsize


def test_a_base_that_is_gone_is_a_failure_with_its_reason(sampled, policy):
    group = sampled(group_attempts=2)
    Policy.objects.filter(pk=policy.pk).update(folder="/nonexistent")
    scorer.serve()
    group.refresh_from_db()
    assert (group.state, group.attempts) == (Group.State.SCORING, 1)
    scorer.serve()
    group.refresh_from_db()
    assert group.state == Group.State.DROPPED and "surprise under the base weights" in group.reason
    assert not Surprise.objects.exists()
