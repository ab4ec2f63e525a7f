"""Advantages: how good each rollout was compared with its baseline, on plain floats, without torch.

| family | functions | takes | gives |
|---|---|---|---|
| `group.py` | grpo, rloo, opmd, asymre, rec, reinforce, best | groups of rewards | per group: a
  number each, or None (dropped) |
| `batch.py` | reinforce_plus_plus | groups of rewards | the same; a number depends on the whole
  batch |
| `people.py` | ranking | groups of rewards; only their order counts | as group.py (`ranked`: a
  ranking of k as k rewards) |
| `named.py` | gdpo | groups of {name of the reward: value} | as group.py |
| `multistep.py` | step_wise_grpo, gigpo | groups of rollouts of turns' rewards | the same shape, or
  None per dropped group |
| `token.py` | gae, discounted, remax, over_tokens | rows of token rewards and masks | (advantages,
  returns), rows of tokens |

`ADVANTAGES` maps names to the functions that take groups of one reward per rollout:
`ADVANTAGES[name](groups, **options)`. Options are keyword arguments of the same names as in the
configuration.

Everywhere: a reward that is missing (None) or not finite raises ValueError (the refiner removes
such rollouts before); a group of one has no baseline to be compared with, so its baseline is 0 and
it is not divided; rewards that differ by rounding only count as equal, with spread 0.
"""

from collections.abc import Callable, Sequence

from apps.pipelines.advantages.batch import reinforce_plus_plus
from apps.pipelines.advantages.group import asymre, best, grpo, opmd, rec, reinforce, rloo
from apps.pipelines.advantages.people import ranking

ADVANTAGES: dict[str, Callable[..., Sequence[list[float] | None]]] = {
    "grpo": grpo,
    "rloo": rloo,
    "reinforce_plus_plus": reinforce_plus_plus,
    "opmd": opmd,
    "asymre": asymre,
    "rec": rec,
    "reinforce": reinforce,
    "best": best,
    "ranking": ranking,
}
