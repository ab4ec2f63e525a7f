"""Advantages of single tokens.

Rows are rollouts, columns their tokens: rewards, masks (1: a token of the policy) and values are
lists of one list per rollout, which may differ in length. Values where the mask is 0 have no
meaning.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from apps.pipelines.advantages.batch import EPSILON, unflatten, whitened
from apps.pipelines.advantages.spread import check_rewards

Rows = Sequence[Sequence[float]]


def gae(
    rewards: Rows,
    mask: Rows,
    values: Rows | None = None,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    whiten: bool = True,
    skip_masked: bool = True,
) -> tuple[list[list[float]], list[list[float]]]:
    """Return generalised advantage estimates: δ_t = r_t + γ V_{t+1} − V_t, A_t = δ_t + γλ A_{t+1}.

    arXiv 1506.02438, eq. 16.

    - `values`: V_t of a critic; None: V = 0, so that A_t = Σ_k (γλ)^k r_{t+k}.
    - `whiten`: over the batch's tokens, subtract the mean and divide by √(variance + 1e-8).
    - `skip_masked`: a token that the policy did not write is no time step: A and V pass over it.
      False counts it as one.

    Returns (advantages, returns = A + V before whitening). A batch of one row is whitened over its
    own tokens; a batch without spread is 0 throughout. Raises ValueError for a reward or value that
    is missing or not finite.
    """
    critic = values if values is not None else [[0.0] * len(row) for row in rewards]
    raw = []
    returns = []
    for row, row_mask, estimate in zip(rewards, mask, critic, strict=True):
        counted = row_mask if skip_masked else [1] * len(row)
        raw.append(_gae_row(_checked(row), counted, _checked(estimate), gamma, lam))
        returns.append([a + v for a, v in zip(raw[-1], estimate, strict=True)])
    return (_whitened(raw, mask) if whiten else raw), returns


def _checked(row: Sequence[float]) -> list[float]:
    """Return the row's numbers as floats; a rollout that a person wrote alone has none."""
    return check_rewards(row) if row else []


def _gae_row(
    rewards: Sequence[float],
    counted: Sequence[float],
    values: Sequence[float],
    gamma: float,
    lam: float,
) -> list[float]:
    later = 0.0
    following = 0.0
    advantages = [0.0] * len(rewards)
    for t in reversed(range(len(rewards))):
        if counted[t]:
            later = rewards[t] + gamma * following - values[t] + gamma * lam * later
            following = values[t]
        advantages[t] = later
    return advantages


def discounted(
    rewards: Rows, mask: Rows, *, gamma: float = 1.0
) -> tuple[list[list[float]], list[list[float]]]:
    """Return whitened discounted returns-to-go G_t = r_t + γ G_{t+1} (REINFORCE++ with a discount).

    arXiv 2501.03262. Returns (advantages, returns); advantages are 0 where the mask is. A batch
    without spread is 0 throughout.
    """
    returns = [
        _gae_row(_checked(row), [1] * len(row), [0.0] * len(row), gamma, 1.0) for row in rewards
    ]
    return _masked(_whitened(returns, mask), mask), returns


def remax(
    rewards: Rows, mask: Rows, baselines: Sequence[float]
) -> tuple[list[list[float]], list[list[float]]]:
    """Return the return-to-go minus the reward of the greedy answer, one baseline per row.

    ReMax, arXiv 2310.10505, eq. 4. Returns (advantages, returns).
    """
    returns = [
        _gae_row(check_rewards(row), [1] * len(row), [0.0] * len(row), 1.0, 1.0)
        for row in _masked(rewards, mask)
    ]
    less = [
        [g - b * m for g, m in zip(row, row_mask, strict=True)]
        for row, row_mask, b in zip(returns, mask, baselines, strict=True)
    ]
    return less, returns


def over_tokens(
    function: Callable, rewards: Rows, mask: Rows, groups: Sequence[object], **options: object
) -> list[list[float]]:
    """Apply a group advantage to the rows' summed rewards and give it to every token of the mask.

    `function` is one of `ADVANTAGES`; `groups` names each row's group. Rows of a dropped group are
    0.
    """
    members: dict[object, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    scores = function(
        [[sum(check_rewards(rewards[place])) for place in places] for places in members.values()],
        **options,
    )
    advantages: list[list[float]] = [[] for _ in rewards]
    for places, group_scores in zip(members.values(), scores, strict=True):
        for place, score in zip(places, group_scores or [0.0] * len(places), strict=True):
            advantages[place] = per_token(score, mask[place])
    return advantages


def per_token(advantage: float, mask: Sequence[float]) -> list[float]:
    """Return a rollout's advantage on each of its tokens, 0 where the mask is 0."""
    return [advantage * weight for weight in mask]


def _masked(rows: Rows, mask: Rows) -> list[list[float]]:
    return [
        [value * weight for value, weight in zip(row, row_mask, strict=True)]
        for row, row_mask in zip(rows, mask, strict=True)
    ]


def _whitened(rows: Rows, mask: Rows) -> list[list[float]]:
    return unflatten(whitened(list(chain(*rows)), list(chain(*mask)), EPSILON), rows)
