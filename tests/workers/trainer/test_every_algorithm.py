"""Each sampling algorithm, from its name to changed weights; advantages that differ by token."""

import math
from dataclasses import replace

import pytest
import torch

from apps.runs.algorithms.snapshot import SOURCES
from apps.runs.algorithms.table import TABLE
from apps.runs.parsing import parse_config
from tests.workers.trainer.batches import digest, experts, rows
from workers.policies.tiny import build_tiny
from workers.trainer.plan import spec_from
from workers.trainer.spec import ReferenceModel

SAMPLING = [name for name in TABLE if name not in SOURCES]
PLAN = {
    "policy": "tiny",
    "taskset": "sort",
    "steps": 3,
    "group_size": 4,
    "groups_per_step": 3,
    "optimizer": {"warmup_steps": 0},
    "rewards": [{"scorer": "a"}, {"scorer": "b"}],
}


@pytest.mark.parametrize("name", SAMPLING)
def test_algorithm_configured_by_name_makes_an_update(base, tmp_path, started, name):
    algorithm = {"name": name}
    reference = ReferenceModel()
    if (
        TABLE[name].parts.get("reference", {}).get("kind") == "policy"
    ):  # the table cannot name the teacher
        build_tiny(tmp_path / "teacher", seed=7)
        algorithm["reference"], reference = (
            {"policy": "large"},
            ReferenceModel("policy", tmp_path / "teacher"),
        )
    plan = parse_config({**PLAN, "algorithm": algorithm})
    host = started(spec_from(plan, base, tmp_path / "checkpoints", plan.steps, reference))
    before = digest(host)
    report = host.update(
        [*rows(1, plan.usual_rows_per_step), *experts(1, plan.expert_rows_per_step)]
    )
    assert report.skipped == "" and math.isfinite(report.metrics["loss"])
    assert digest(host) != before


def after(host, batch) -> str:
    host.update(batch)
    return digest(host)


def test_equal_token_advantages_match_the_rows_advantage(spec, started):
    spread = [
        replace(row, token_advantages=(row.advantage,) * len(row.completion_ids)) for row in rows(1)
    ]
    assert after(started(spec()), spread) == after(started(spec()), rows(1))


def test_advantages_at_masked_tokens_are_ignored(spec, started):
    batch = rows(1, tokens_of_tools=True)
    own = [[row.advantage if here else 0.0 for here in row.action_mask] for row in batch]
    strange = [[row.advantage if here else 1e6 for here in row.action_mask] for row in batch]
    first, second = (
        [replace(r, token_advantages=tuple(a)) for r, a in zip(batch, some, strict=True)]
        for some in (own, strange)
    )
    assert after(started(spec()), first) == after(started(spec()), second)


def test_each_token_is_trained_with_its_own_advantage(spec, started):
    """With the advantage only at the last token, only that token is trained. So the update equals
    that of rows in which all other tokens are masked, except for the number of tokens, which
    does not affect AdamW's first step.
    """
    last = [tuple([0.0] * (len(row.completion_ids) - 1) + [row.advantage]) for row in rows(1)]
    alone = [(0,) * (len(row.completion_ids) - 1) + (1,) for row in rows(1)]
    by_token = started(spec())
    by_mask = started(spec())
    by_token.update(
        [replace(row, token_advantages=own) for row, own in zip(rows(1), last, strict=True)]
    )
    by_mask.update(
        [replace(row, action_mask=mask) for row, mask in zip(rows(1), alone, strict=True)]
    )
    for mine, other in zip(
        by_token.trainer.model.parameters(), by_mask.trainer.model.parameters(), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=2e-6)


def test_token_advantages_of_a_different_length_are_refused():
    with pytest.raises(ValueError, match="aligned"):
        replace(rows(1)[0], token_advantages=(1.0,))
