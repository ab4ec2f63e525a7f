"""Advantages of rollouts of several turns.

`groups[g][i][t]` is the reward of turn t of rollout i of group g; rollouts may differ in length and
have at least one turn. The result has the same shape, with None for a dropped group.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from apps.pipelines.advantages.group import EPSILON, grpo
from apps.pipelines.advantages.spread import centred, check_rewards, deviation

Turns = Sequence[Sequence[Sequence[float]]]


def step_wise_grpo(
    groups: Turns,
    *,
    scale: str = "group",
    step_norm: bool = False,
    epsilon: float = EPSILON,
    std_threshold: float | None = None,
) -> list[list[list[float]] | None]:
    """Return GRPO on the reward of each rollout's last turn, given to all its turns.

    - `scale`, `std_threshold`: as in `grpo`; the std of the batch is over the last turns of all
      rollouts.
    - `step_norm`: divide by the rollout's number of turns, so that a long rollout weighs no more
      than a short one.

    A group of one rollout: r / (1 + ε). Rollouts that end alike: 0 throughout.
    """
    scores = grpo(
        [[turns[-1] for turns in group] for group in groups],
        scale=scale,
        epsilon=epsilon,
        std_threshold=std_threshold,
    )
    advantages: list[list[list[float]] | None] = []
    for group_scores, group in zip(scores, groups, strict=True):
        if group_scores is None:
            advantages.append(None)
            continue
        counts = [len(turns) for turns in group]
        advantages.append(
            [
                [score / (count if step_norm else 1)] * count
                for score, count in zip(group_scores, counts, strict=True)
            ]
        )
    return advantages


def gigpo(
    groups: Turns,
    states: Sequence[Sequence[Sequence[str | None]]],
    *,
    omega: float = 1.0,
    gamma: float = 1.0,
    scale: str = "none",
    epsilon: float = EPSILON,
    across_groups: bool = False,
) -> list[list[list[float]]]:
    """Return A_t = A^E + ω·A^S_t: the episode's advantage plus the turn's among turns in its state.

    A^E = normalised Σ_t r_t over the rollouts of the group; A^S = normalised discounted return
    Σ_{k≥t} γ^{k−t} r_k over all turns that began in the same state (GiGPO, arXiv 2505.10978, eq.
    3–8).

    - `states`: in the shape of `groups`, the name of the state in which a turn began; None:
      unknown, A^S = 0.
    - `scale`: normalised means minus the mean, divided by (`std`: std with n − 1; `none`: 1) + ε.
    - `across_groups`: whether equal states of different groups are one; they are not where a state
      does not identify its task.

    A group of one rollout: A^E is its episode's reward. A state met once, or with equal returns:
    A^S = 0.
    """
    if scale not in ("std", "none"):
        raise ValueError(f"scale must be std or none, not {scale!r}")
    checked = [[check_rewards(turns) for turns in group] for group in groups]
    steps = _among_states(checked, states, gamma, scale, epsilon, across_groups)
    advantages = []
    for g, group in enumerate(checked):
        episodes = _normalised([sum(turns) for turns in group], scale, epsilon)
        advantages.append(
            [
                [e + omega * steps.get((g, i, t), 0.0) for t in range(len(group[i]))]
                for i, e in enumerate(episodes)
            ]
        )
    return advantages


def _among_states(
    groups: Turns, states: Sequence, gamma: float, scale: str, epsilon: float, across: bool
) -> dict[tuple[int, int, int], float]:
    """Return A^S by (group, rollout, turn), for turns whose state was met at least twice."""
    met = defaultdict(list)
    for where, value in _returns(groups, gamma):
        g, i, t = where
        if states[g][i][t] is not None:
            met[None if across else g, states[g][i][t]].append((where, value))
    step_advantages: dict[tuple[int, int, int], float] = {}
    for turns in met.values():
        if len(turns) > 1:
            places, values = zip(*turns, strict=True)
            step_advantages |= zip(places, _normalised(values, scale, epsilon), strict=True)
    return step_advantages


def _returns(groups: Turns, gamma: float) -> Iterator[tuple[tuple[int, int, int], float]]:
    for g, group in enumerate(groups):
        for i, turns in enumerate(group):
            running = 0.0
            for t in reversed(range(len(turns))):
                running = turns[t] + gamma * running
                yield (g, i, t), running


def _normalised(values: Sequence[float], scale: str, epsilon: float) -> list[float]:
    divisor = (deviation(values) if scale == "std" else 1.0) + epsilon
    return [difference / divisor for difference in centred(values)]
