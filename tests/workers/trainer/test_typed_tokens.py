"""Tokens that a person typed or a user wrote are in the policy's input but not in loss, KL, ratio
or totals.
"""

from dataclasses import replace

import pytest

from tests.workers.trainer.batches import digest, rows
from workers.trainer.collate import Row
from workers.trainer.spec import Divergence, Loss, Objective

TYPED = (9, 12, 7)
OBJECTIVES = {
    "ppo": Objective(
        Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28}), kl=Divergence("k3", 0.1), entropy=0.01
    ),
    "dr_grpo": Objective(
        Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28}), "seq-mean-token-sum-norm"
    ),
    "grpo": Objective(Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28}), "seq-mean-token-mean"),
    "gspo": Objective(Loss("gspo", {"clip_low": 3e-4, "clip_high": 4e-4}), "seq-mean-token-mean"),
}


def typed_behind(row: Row, logprob: float = 0.0) -> Row:
    """Return the row with tokens at its end that a person typed."""
    return replace(
        row,
        completion_ids=(*row.completion_ids, *TYPED),
        action_mask=(*row.action_mask, *[0] * len(TYPED)),
        behaviour_logprobs=(*row.behaviour_logprobs, *[logprob] * len(TYPED)),
    )


def learned(
    spec, started, objective: Objective, batches: list[list[Row]]
) -> tuple[str, list[dict]]:
    """Return a digest of all parameters after these updates, and the metrics of each."""
    host = started(spec(objective=objective))
    reports = [host.update(batch) for batch in batches]
    assert not any(report.skipped for report in reports)
    return digest(host), [report.metrics for report in reports]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_stored_logprobs_of_typed_tokens_have_no_effect(spec, started, name):
    found = []
    for logprob in (0.0, -7.5, float("nan")):
        batches = [[typed_behind(row, logprob) for row in rows(step)] for step in (1, 2)]
        found.append(learned(spec, started, OBJECTIVES[name], batches)[0])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_typed_tokens_at_the_end_of_a_row_do_not_change_its_metrics(spec, started, name):
    host = started(spec(objective=OBJECTIVES[name]))
    other = started(spec(objective=OBJECTIVES[name]))
    plain = rows(1)
    longer = [typed_behind(row) for row in rows(1)]
    one = host.update(plain).metrics
    two = other.update(longer).metrics
    assert one["tokens"] == two["tokens"]
    for name in {
        "loss",
        "kl",
        "entropy",
        "behaviour_gap",
        "behaviour_kl",
        "clip_share",
        "grad_norm",
    } & one.keys():
        assert two[name] == pytest.approx(one[name], rel=1e-4, abs=1e-6), name


def test_typed_tokens_before_the_policys_own_affect_the_gradient(spec, started):
    """The policy's later tokens depend on the typed ones: other ones change the gradient."""
    found = []
    for typed in (TYPED, (6, 6, 6)):
        changed = [
            replace(
                row,
                completion_ids=(*typed, *row.completion_ids),
                action_mask=(*[0] * len(typed), *row.action_mask),
                behaviour_logprobs=(*[0.0] * len(typed), *row.behaviour_logprobs),
            )
            for row in rows(1)
        ]
        found.append(learned(spec, started, OBJECTIVES["ppo"], [changed]))
    assert found[0][0] != found[1][0]
    assert (
        found[0][1][0]["tokens"]
        == found[1][1][0]["tokens"]
        == sum(sum(row.action_mask) for row in rows(1))
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_completely_typed_row_does_not_change_loss_or_gradient(spec, started, name):
    silent = [replace(row, action_mask=(0,) * len(row.action_mask)) for row in rows(5)[:2]]
    _, [alone] = learned(spec, started, OBJECTIVES[name], [rows(1)])
    _, [beside] = learned(spec, started, OBJECTIVES[name], [[*rows(1), *silent]])
    assert beside["tokens"] == alone["tokens"]
    assert beside["loss"] == pytest.approx(alone["loss"], rel=1e-4, abs=1e-6)
    assert beside["grad_norm"] == pytest.approx(alone["grad_norm"], rel=1e-4)
