"""Advantage computation: the run's configuration applied to rewards and tokens.

`of_group` is called when a group is refined, `credit_batch` when a step's batch is fixed, and
only where the numbers depend on the whole step (`advantage.over_batch`); until then such a
rollout carries what is known of its advantage within its group.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from apps.buffer.credit import Credit
from apps.buffer.models import Experience
from apps.pipelines.advantages import ADVANTAGES
from apps.pipelines.advantages.batch import whitened
from apps.pipelines.advantages.multistep import gigpo, step_wise_grpo
from apps.pipelines.advantages.named import gdpo
from apps.pipelines.advantages.people import ranked
from apps.pipelines.advantages.spread import centred, deviation, mean
from apps.pipelines.advantages.token import discounted, gae
from apps.pipelines.plugin_advantages import advantages_by_plugin
from apps.rollouts.payload import Tokens
from apps.rollouts.turns import stretches
from apps.runs.algorithms.advantages import (
    GAE,
    GDPO,
    Advantage,
    AdvantageSection,
    GiGPO,
    PluginAdvantage,
    ReinforcePlusPlus,
)
from apps.runs.config import RunConfig


@dataclass(frozen=True)
class JudgedRollout:
    """A rollout with its combined reward, its reward by scorer, and its number of policy turns."""

    reward: float
    by_scorer: Mapping[str, float]
    turns: int = 1


def of_group(plan: RunConfig, judged: Sequence[JudgedRollout]) -> list[float] | None:
    """Return the advantages of a group's rollouts; None when nothing can be learned from it.

    Raises OperatorFailed for a plugin's advantage that fails.
    """
    advantage = plan.algorithm.advantage
    rewards = [rollout.reward for rollout in judged]
    if advantage.over_batch or plan.algorithm.has_teacher:
        return _provisional_advantages(plan, judged)
    if advantage.name == "gdpo":
        return gdpo(
            [[rollout.by_scorer for rollout in judged]],
            weights=_weights(plan),
            **_options(advantage),
        )[0]
    if advantage.name == "step_wise_grpo":
        turns = [[rollout.reward] * rollout.turns for rollout in judged]
        (scores,) = step_wise_grpo([turns], **_options(advantage))
        return None if scores is None else [turn_scores[0] for turn_scores in scores]
    if isinstance(advantage, PluginAdvantage):
        return advantages_by_plugin(advantage, rewards)
    return ADVANTAGES[advantage.name]([rewards], **_options(advantage))[0]


def _provisional_advantages(plan: RunConfig, judged: Sequence[JudgedRollout]) -> list[float] | None:
    """Return the provisional values for advantages that need the whole step, or the teacher.

    None means that the group is dropped.
    """
    advantage = plan.algorithm.advantage
    rewards = [rollout.reward for rollout in judged]
    threshold = getattr(advantage, "std_threshold", None)
    spread = ranked([-reward for reward in rewards]) if advantage.name == "ranking" else rewards
    if threshold is not None and (len(rewards) == 1 or deviation(spread) <= threshold):
        return None
    if advantage.name == "gdpo":
        return gdpo([[rollout.by_scorer for rollout in judged]], weights=_weights(plan))[0]
    if plan.algorithm.has_teacher:
        return [0.0] * len(rewards)
    alone = (
        advantage.name in ("gae", "reinforce_plus_plus")
        and getattr(advantage, "baseline", "none") == "none"
    )
    return rewards if alone else centred(rewards)


def credit_batch(plan: RunConfig, batch: Sequence[Experience]) -> dict[int, Credit]:
    """Return the advantage of each experience in this step, by experience id.

    Groups are passed in the batch's order.
    """
    groups: dict[int, list[Experience]] = {}
    for experience in batch:
        groups.setdefault(experience.group_id, []).append(experience)
    rows = list(groups.values())
    credits = CREDITS[plan.algorithm.advantage.name](plan.algorithm.advantage, rows)
    return {
        e.pk: c
        for members, group_credits in zip(rows, credits, strict=True)
        for e, c in zip(members, group_credits, strict=True)
    }


Score = TypeVar("Score")
Rows = Sequence[Sequence[Experience]]
Credits = list[list[Credit]]


def _standard_scores(advantage: Advantage, rows: Rows) -> Credits:
    """Divide the scores by the batch's spread.

    Groups below the threshold were dropped when they were refined.
    """
    options = _options(advantage) | {"std_threshold": None}
    if advantage.name != "step_wise_grpo":
        if options.get("rank_penalty"):
            options["logprobs"] = [
                [_mean_logprob(e.rollout.tokens) for e in members] for members in rows
            ]
        scores = ADVANTAGES[advantage.name](
            [[_reward(e) for e in members] for members in rows], **options
        )
        return [[Credit(score) for score in _kept_scores(group_scores)] for group_scores in scores]
    turns = [
        [[_reward(e)] * len(stretches(e.rollout.tokens.action_mask)) for e in members]
        for members in rows
    ]
    return [
        [Credit(turn_scores[0]) for turn_scores in _kept_scores(group)]
        for group in step_wise_grpo(turns, **options)
    ]


def _kept_scores(scores: list[Score] | None) -> list[Score]:
    """Return the scores of a group; without a threshold, none is dropped."""
    assert scores is not None
    return scores


def _reward(experience: Experience) -> float:
    """Return the reward, which every experience that was sampled has."""
    assert experience.reward is not None
    return experience.reward


def _mean_logprob(tokens: Tokens) -> float:
    """Return the mean logprob of the policy's own tokens."""
    logprobs = [
        value
        for value, is_policy in zip(tokens.logprobs, tokens.action_mask, strict=True)
        if is_policy
    ]
    return mean(logprobs) if logprobs else 0.0


def _sums(advantage: GDPO, rows: Rows) -> Credits:
    """Whiten the sums made within the groups over the whole step, GDPO's last step."""
    sums = [e.advantage for members in rows for e in members]
    divisor = deviation(sums) + 1e-6
    scores = iter(centred(sums))
    return [[Credit(next(scores) / divisor) for _ in members] for members in rows]


def _whitened_returns(advantage: ReinforcePlusPlus, rows: Rows) -> Credits:
    """Compute REINFORCE++.

    Without a discount all tokens of a rollout have its reward, so they are not written out.
    """
    flat = [e for members in rows for e in members]
    rewards = [
        r for members in rows for r in _less_baseline(advantage, [_reward(e) for e in members])
    ]
    masks = [e.rollout.tokens.action_mask for e in flat]
    if advantage.gamma == 1:
        credits = [Credit(score) for score in whitened(rewards, [sum(mask) for mask in masks])]
    else:
        table = [_at_the_end(r, mask) for r, mask in zip(rewards, masks, strict=True)]
        scores, _ = discounted(table, [[1] * len(row) for row in table], gamma=advantage.gamma)
        credits = [
            _scores_at_tokens(mask, row_scores)
            for mask, row_scores in zip(masks, scores, strict=True)
        ]
    return _grouped(credits, rows)


def _less_baseline(advantage: ReinforcePlusPlus, rewards: Sequence[float]) -> Sequence[float]:
    return centred(rewards) if advantage.baseline == "group" else rewards


def _compute_gae(advantage: GAE, rows: Rows) -> Credits:
    """Compute GAE without a critic: the reward is at the policy's last token."""
    flat = [experience for members in rows for experience in members]
    masks = [experience.rollout.tokens.action_mask for experience in flat]
    rewards = [_reward(experience) for experience in flat]
    if advantage.gamma * advantage.lam == 1:
        whole = whitened(rewards, [sum(mask) for mask in masks]) if advantage.whiten else rewards
        return _grouped([Credit(score) for score in whole], rows)
    table = [_at_the_end(reward, mask) for reward, mask in zip(rewards, masks, strict=True)]
    scores, _ = gae(table, [[1] * len(row) for row in table], **_options(advantage))
    return _grouped(
        [
            _scores_at_tokens(mask, row_scores)
            for mask, row_scores in zip(masks, scores, strict=True)
        ],
        rows,
    )


def _compute_gigpo(advantage: GiGPO, rows: Rows) -> Credits:
    """Compute GiGPO; a turn's state is everything that the policy saw when the turn began."""
    tokens = [[e.rollout.tokens for e in members] for members in rows]
    spans = [
        [stretches(rollout_tokens.action_mask) for rollout_tokens in group] for group in tokens
    ]
    rewards = [
        [[0.0] * (len(turns) - 1) + [_reward(e)] for e, turns in zip(members, group, strict=True)]
        for members, group in zip(rows, spans, strict=True)
    ]
    states = [
        [
            [_state(rollout_tokens, start) for start, _ in turns]
            for rollout_tokens, turns in zip(t, s, strict=True)
        ]
        for t, s in zip(tokens, spans, strict=True)
    ]
    scores = gigpo(rewards, states, **_options(advantage))
    return [
        [
            _over_turns(rollout_tokens, turns, score)
            for rollout_tokens, turns, score in zip(t, s, group, strict=True)
        ]
        for t, s, group in zip(tokens, spans, scores, strict=True)
    ]


def _state(tokens: Tokens, start: int) -> str:
    token_ids = (*tokens.prompt_ids, *tokens.completion_ids[:start])
    return hashlib.sha256(repr(token_ids).encode()).hexdigest()


def _at_the_end(reward: float, mask: Sequence[int]) -> list[float]:
    """Return one reward per policy token: zeros, and the rollout's reward at the last token."""
    return [*[0.0] * (sum(mask) - 1), reward] if any(mask) else []


def _scores_at_tokens(mask: Sequence[int], scores: Sequence[float]) -> Credit:
    """Return the scores of the policy's tokens at their positions in the completion."""
    remaining = iter(scores)
    return Credit.of([next(remaining) if is_policy else 0.0 for is_policy in mask], mask)


def _over_turns(
    tokens: Tokens, turns: Sequence[tuple[int, int]], scores: Sequence[float]
) -> Credit:
    advantages = [0.0] * len(tokens.completion_ids)
    for (start, end), score in zip(turns, scores, strict=True):
        advantages[start:end] = [score] * (end - start)
    return Credit.of(advantages, tokens.action_mask)


def _grouped(credits: Sequence[Credit], rows: Rows) -> Credits:
    remaining = iter(credits)
    return [[next(remaining) for _ in members] for members in rows]


def _options(advantage: AdvantageSection) -> dict[str, Any]:
    return advantage.model_dump(exclude={"name"})


def _weights(plan: RunConfig) -> dict[str, float]:
    return {choice.scorer: choice.weight for choice in plan.judges}


# By the advantage's name; each takes the section of that name.
CREDITS: Mapping[str, Callable[[Any, Rows], Credits]] = {
    "grpo": _standard_scores,
    "ranking": _standard_scores,
    "step_wise_grpo": _standard_scores,
    "gdpo": _sums,
    "reinforce_plus_plus": _whitened_returns,
    "gae": _compute_gae,
    "gigpo": _compute_gigpo,
}
