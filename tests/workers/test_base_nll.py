"""The base policy's NLL of finished rollouts: the numbers are right and stored before the group
continues; a failure stores none.
"""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from apps.feedback.claiming import claim
from apps.feedback.models import Item, RolloutBaseNll
from apps.feedback.rater_model.anchoring import keep_anchor, unanchored
from apps.feedback.rater_model.learning import learn
from apps.feedback.ratings.items import submit
from apps.policies.models import Policy
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from tests.feedback.asking import answer_to
from tests.workers.test_scorer_and_refiner import fresh_workers  # noqa: F401
from tests.workers.trainer.conftest import base  # noqa: F401
from workers import refiner, scorer
from workers.base_nll import BasePolicy
from workers.trainer.packing import packs_rows

PEOPLE = {"per_group": 2, "at_deadline": "fill_with_rater_model", "rater_model": {}}


def slowly(model, prompt: list[int], completion: list[int]) -> list[float]:
    """Return the NLL of each token, computed by one forward pass over the tokens before it."""
    found = []
    for n, token in enumerate(completion):
        logits = model(input_ids=torch.tensor([[*prompt, *completion[:n]]])).logits[0, -1]
        found.append(-torch.log_softmax(logits.double(), 0)[token].item())
    return found


@pytest.mark.parametrize("packs", [True, False])
def test_base_nlls_match_a_token_by_token_computation(base, monkeypatch, packs):
    if not packs:
        monkeypatch.setattr("workers.trainer.packing.why_not_packable", lambda model: "not now")
    rows = [((1, 2, 3), (4, 5)), ((1,), (2, 3, 4, 5, 6, 7)), ((3, 3), ()), ((2, 5, 1, 1), (9,))]
    rows += [((1, 2, 3), (4, 6, 7)), ((1, 2, 3), (4, 5)), ((1, 2, 3, 4), (5, 8))]
    model = AutoModelForCausalLM.from_pretrained(base, dtype="float32").eval()
    with torch.no_grad():
        right = [slowly(model, list(prompt), list(completion)) for prompt, completion in rows]
    policy = BasePolicy(base)
    assert packs_rows(policy.model) is packs
    assert [pytest.approx(own, abs=1e-5) for own in right] == policy.nlls(rows)


def test_splitting_many_rows_into_passes_does_not_change_nlls(base, monkeypatch):
    rows = [((1, 2), tuple(range(1, n))) for n in range(2, 9)]
    policy = BasePolicy(base)
    together = policy.nlls(rows)
    monkeypatch.setattr("workers.base_nll.TOKENS_AT_ONCE", 12)
    monkeypatch.setattr("workers.base_nll.LOGITS_AT_ONCE", 1)
    apart = policy.nlls(rows)
    assert [pytest.approx(own, abs=1e-5) for own in together] == apart


@pytest.fixture
def sampled(new_run, finish, policy, base):
    """Return a function that creates two finished replies of a run with a rater model."""
    Policy.objects.filter(pk=policy.pk).update(folder=str(base))

    def make(**changes) -> Group:
        (group,) = finish(
            new_run(**{"rewards": [], "people": PEOPLE, **changes}), ["\x05\x06\x07", "\x01\x02"]
        )
        return group

    yield make
    scorer.base_policies.cache_clear()


def test_scorer_stores_base_nlls_before_the_group_continues(sampled):
    group = sampled()
    assert scorer.serve()
    group.refresh_from_db()
    rows = RolloutBaseNll.objects.filter(rollout__group=group)
    assert group.state == Group.State.WAITING and rows.count() == 2
    assert all(math.isfinite(row.mean) and row.worst >= row.mean > 0 for row in rows)


def test_runs_without_a_rater_model_load_no_base(sampled):
    sampled(rewards=[{"scorer": "sort"}], people={})
    scorer.serve()
    assert not RolloutBaseNll.objects.exists() and not scorer.base_policies.cache_info().currsize


def test_missing_base_policy_fails_the_group_with_the_reason(sampled, policy):
    group = sampled(group_attempts=2)
    Policy.objects.filter(pk=policy.pk).update(folder="/nonexistent")
    scorer.serve()
    group.refresh_from_db()
    assert (group.state, group.attempts) == (Group.State.SCORING, 1)
    scorer.serve()
    group.refresh_from_db()
    assert group.state == Group.State.DROPPED and "base NLL:" in group.reason
    assert not RolloutBaseNll.objects.exists()


@pytest.fixture
def ranked(sampled):
    return sampled(people={**PEOPLE, "form": "ranking"})


def test_ranking_contains_a_base_policy_answer_that_is_never_trained_on(ranked, bob):
    assert scorer.serve()
    anchor = Rollout.objects.get(group=ranked, origin="synthetic")
    item = Item.objects.get()
    assert anchor.pk in item.members and len(item.members) == 3
    assert (anchor.first_version, anchor.state) == (
        0,
        Rollout.State.FINISHED,
    ) and RolloutBaseNll.objects.filter(rollout=anchor).exists()
    assert (
        0
        < anchor.completion_tokens
        == len(anchor.tokens.completion_ids)
        <= ranked.run.settings.sampling.max_tokens
    )
    (held,) = claim(bob, ranked.run_id)
    submit(
        bob,
        held.slot_id,
        answer_to(held, {"ranks": {str(pk): n for n, pk in enumerate(held.shown, start=1)}}),
    )
    assert learn(ranked.run).learner.decisions == 1
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    refiner.serve()
    assert set(
        Reward.objects.filter(scorer="rater_model").values_list("rollout__origin", flat=True)
    ) == {"policy"}


def test_a_group_has_one_anchor_however_often_it_is_scored(ranked):
    missing = unanchored([ranked])
    first, second = (
        keep_anchor(missing[0], [5, 6], [-1.0, -2.0], text) for text in ("first", "second")
    )
    assert (
        first == second
        and Rollout.objects.get(origin="synthetic").text == "first"
        and not unanchored([ranked])
    )


def test_star_ratings_create_no_anchor(sampled):
    sampled()
    scorer.serve()
    assert not Rollout.objects.filter(origin="synthetic").exists()


def test_base_policy_answer_depends_only_on_its_own_seed(base):
    policy = BasePolicy(base)
    together = policy.answers([(1, 2, 3), (4,)], 6, 1.0, seeds=[7, 8])
    alone = policy.answers([(4,)], 6, 1.0, seeds=[8])
    assert together[1].ids == alone[0].ids
    assert all(0 < len(answer.ids) <= 6 for answer in together)
