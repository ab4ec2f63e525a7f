"""Makes demonstrations of episodes cut after the action with the highest reward so far.

Only episodes that lost reward afterwards are used.

Of an episode that opened the door and then fell into the pit, the way to the door is worth
imitating (the steps of an episode as experiences of their own, as Trinity-RFT's step-wise workflows
have them). The row is the episode's own tokens up to the end of that action: its task's prompt, the
environment's words, which nobody imitates, and the policy's, which the expert loss teaches.
"""

import math
from collections.abc import Iterator, Sequence

from pydantic import Field

from apps.pipelines.operators.contract import (
    Action,
    Made,
    OperatorOptions,
    Sample,
    Sifted,
    group_samples,
)
from apps.runs.config import RunConfig

FAMILY = "synthesize"
ASKS = ("acted",)
EXACT = 1e-9


class Options(OperatorOptions):
    reward_threshold: float = Field(
        0.0,
        allow_inf_nan=False,
        description="The sum of rewards up to the cut must be above this value.",
    )
    max_episodes: int = Field(
        2,
        ge=1,
        le=1_000,
        description="Number of episodes per group that are cut, starting with the highest sums.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Make rows of the best beginnings of episodes; keep all samples.

    No beginning that is masked is used, and none after an action whose reward is not known.
    """
    rows = []
    for members in group_samples(samples).values():
        beginnings = sorted(
            _beginnings(members, options.reward_threshold), key=lambda pair: -pair[0]
        )
        rows += [row for _, row in beginnings[: options.max_episodes]]
    return Sifted(list(samples), made=rows)


def why_not(plan: RunConfig) -> str:
    """Return why it is unknown what the actions of this run have earned; "" if it is known."""
    if plan.environment is None or plan.serve:
        return (
            "cuts episodes where their sum of rewards is highest, so the run needs an "
            "`environment` without `serve`"
        )
    return ""


def _beginnings(members: Sequence[Sample], reward_threshold: float) -> Iterator[tuple[float, Made]]:
    for sample in members:
        prefix = _known_prefix(sample.acted.get(sample.rollout, ()))
        sums = [
            math.fsum(action.reward or 0.0 for action in prefix[: number + 1])
            for number in range(len(prefix))
        ]
        best = max(sums, default=-math.inf)
        place = sums.index(best) if sums else 0
        if sample.silent or best <= reward_threshold + EXACT or best <= sums[-1] + EXACT:
            continue
        why = (
            f"the first {place + 1} of {len(prefix)} actions got {best:.4g} in total, all of "
            f"them {sums[-1]:.4g}"
        )
        yield best, Made(sample, why, tokens=prefix[place].end)


def _known_prefix(actions: Sequence[Action]) -> list[Action]:
    """Return the actions before the first one whose reward is unknown."""
    unknown = next(
        (number for number, action in enumerate(actions) if action.reward is None), len(actions)
    )
    return list(actions[:unknown])
