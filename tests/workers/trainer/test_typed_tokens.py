"""Tokens that a person typed, or a user said, are read by the policy and learned from by nobody:
loss, KL, ratio, totals.
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
    """The row with tokens that a person typed at its end."""
    return replace(
        row,
        completion_ids=(*row.completion_ids, *TYPED),
        action_mask=(*row.action_mask, *[0] * len(TYPED)),
        behaviour_logprobs=(*row.behaviour_logprobs, *[logprob] * len(TYPED)),
    )


def learned(
    spec, started, objective: Objective, batches: list[list[Row]]
) -> tuple[str, list[dict]]:
    """All parameters after these updates, and what each reported."""
    host = started(spec(objective=objective))
    reports = [host.update(batch) for batch in batches]
    assert not any(report.skipped for report in reports)
    return digest(host), [report.metrics for report in reports]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_is_kept_as_logprob_of_typed_tokens_changes_nothing(spec, started, name):
    found = []
    for logprob in (0.0, -7.5, float("nan")):
        batches = [[typed_behind(row, logprob) for row in rows(step)] for step in (1, 2)]
        found.append(learned(spec, started, OBJECTIVES[name], batches)[0])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_row_with_typed_tokens_behind_it_teaches_what_it_taught_without_them(spec, started, name):
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


def test_typed_tokens_between_the_policys_own_are_read_though(spec, started):
    """The policy's later tokens answer what was typed: other typed words, another gradient."""
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
def test_a_row_typed_throughout_teaches_nothing_and_is_in_no_mean(spec, started, name):
    silent = [replace(row, action_mask=(0,) * len(row.action_mask)) for row in rows(5)[:2]]
    _, [alone] = learned(spec, started, OBJECTIVES[name], [rows(1)])
    _, [beside] = learned(spec, started, OBJECTIVES[name], [[*rows(1), *silent]])
    assert beside["tokens"] == alone["tokens"]
    assert beside["loss"] == pytest.approx(alone["loss"], rel=1e-4, abs=1e-6)
    assert beside["grad_norm"] == pytest.approx(alone["grad_norm"], rel=1e-4)
