"""Which groups of a buffer an update takes, as pure rules over what is known of each group."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import pstdev

from apps.runs.reading import ExperienceReplay, Order
from apps.tasksets.selection.chance import unit

LEAST_WEIGHT = 0.01  # of a group whose advantages are all 0: nothing is out of the question (Schaul et al. 2016, eq. 1)


@dataclass(frozen=True)
class Ready:
    """A group that no update took yet. `version`: the oldest that sampled any of it. `is_rated`: by a person."""

    group: int
    draw: int
    version: int
    rewards: Sequence[float]
    is_rated: bool = False


def in_order(groups: Sequence[Ready], rule: Order, version: int) -> list[int]:
    """The groups' ids, what is to be learned from first in front; groups that are alike in the order of their draws.

    `version` is the trainer's.
    """
    return [one.group for one in sorted(groups, key=lambda one: (-_worth(one, rule, version), one.draw))]


def _worth(one: Ready, rule: Order, version: int) -> float:
    if rule.name == "fifo":
        return 0.0
    if rule.name == "freshest":
        return one.version
    return rule.people * one.is_rated + rule.spread * pstdev(one.rewards) - rule.age * (version - one.version)


@dataclass(frozen=True)
class Trained:
    """A group that updates took. `uses`: in how many; `last`: the number of the newest of them.

    `version`: the oldest that sampled any of it; `advantage`: the mean of what its rollouts' |advantage| was then.
    """

    group: int
    draw: int
    version: int
    uses: int
    last: int
    advantage: float


def taken_again(groups: Sequence[Trained], rule: ExperienceReplay, *, number: int, most: int, oldest: int, seed: int) -> list[int]:
    """The ids of at most `most` of the groups that update `number` takes again, a sample without replacement.

    None is older than version `oldest`, has had `rule.max_uses`, or was taken in the last `rule.cool_down` updates. Each has a
    random number of its own, by seed, update and draw, so that the same rows give the same sample. Weighted as Efraimidis and
    Spirakis (2006, "Weighted random sampling with a reservoir", algorithm A): the `most` largest u^(1/w), u uniform
    and w the group's weight; here by the smallest -ln(u)/w, the same order without underflow.
    """
    able = [
        one for one in groups
        if one.version >= oldest and one.uses < rule.max_uses and number - one.last > rule.cool_down
    ]  # fmt: skip
    waits = {one.group: -math.log1p(-unit(seed, "again", number, one.draw)) / _weight(one, rule) for one in able}
    return [one.group for one in sorted(able, key=lambda one: (waits[one.group], one.draw))[:most]]


def _weight(one: Trained, rule: ExperienceReplay) -> float:
    return (one.advantage + LEAST_WEIGHT) ** rule.alpha if rule.name == "prioritized" else 1.0
