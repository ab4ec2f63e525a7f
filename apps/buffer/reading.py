"""Which groups of a buffer an update takes, as pure rules over what is known of each group."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import pstdev, pvariance

from apps.buffer.priorities import decay_with_limit, linear_decay
from apps.runs.reading import ExperienceReplay, Order
from apps.tasksets.selection.chance import unit

LEAST_WEIGHT = 0.01  # of a group that has nothing for it: none is out of the question (Schaul et al. 2016, eq. 1)


@dataclass(frozen=True)
class Ready:
    """A group that no update took yet. `version`: the oldest that sampled any of it. `is_rated`: by a person.

    `kind`: what `rarity` counts it as, a domain or a task's id.
    """

    group: int
    draw: int
    version: int
    rewards: Sequence[float]
    is_rated: bool = False
    kind: str | int = ""


@dataclass(frozen=True)
class Moment:
    """When an order is asked for: before update `number`, with the trainer at `version`.

    `learned`: by kind, how many groups the updates before it took, those that `rarity` counts.
    """

    version: int
    number: int = 0
    seed: int = 0
    learned: Mapping[str | int, int] | None = None


def in_order(groups: Sequence[Ready], rule: Order, now: Moment) -> list[int]:
    """The groups' ids, what is to be learned from first in front; groups that are alike in the order of their draws."""
    turns = _turns(groups, now.learned or {}) if rule.name == "rarity" else {}
    places = turns or {one.group: -_worth(one, rule, now) for one in groups}
    return [one.group for one in sorted(groups, key=lambda one: (places[one.group], one.draw))]


def _worth(one: Ready, rule: Order, now: Moment) -> float:
    age = now.version - one.version
    match rule.name:
        case "freshest":
            return one.version
        case "priority":
            return rule.people * one.is_rated + rule.spread * pstdev(one.rewards) - rule.age * age
        case "reward_variance":
            return pvariance(one.rewards)
        case "human_first":
            return float(one.is_rated)
        case "weighted":
            weight = (rule.people * one.is_rated + rule.spread * pstdev(one.rewards) + LEAST_WEIGHT) * math.exp(-rule.age * age)
            return -_wait(unit(now.seed, "first", now.number, one.draw), weight)
    return 0.0


def _turns(groups: Sequence[Ready], learned: Mapping[str | int, int]) -> dict[int, int]:
    """By group, how many of its kind are taken before it: taking the lowest first is taking the rarest kind each time."""
    taken, turns = Counter(learned), {}
    for one in sorted(groups, key=lambda one: one.draw):
        turns[one.group] = taken[one.kind]
        taken[one.kind] += 1
    return turns


def _wait(chance: float, weight: float) -> float:
    """The smaller, the sooner it is taken: an exponential waiting time of this rate, from a number in [0, 1).

    The order by largest u^(1/w) of Efraimidis and Spirakis (2006, "Weighted random sampling with a reservoir", algorithm A),
    u = 1 − chance, as -ln(u)/w, which does not underflow.
    """
    return -math.log1p(-chance) / weight if weight else math.inf


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
    """The ids of at most `most` of the groups that update `number` takes again, each once, by the rule.

    None is older than version `oldest`, has had `rule.max_uses`, or was taken in the last `rule.cool_down` updates. What is
    random in it is each group's own, by seed, update and draw, so that the same rows give the same answer.
    """
    able = [
        one for one in groups
        if one.version >= oldest and one.uses < rule.max_uses and number - one.last > rule.cool_down
    ]  # fmt: skip
    places = {one.group: _place(one, rule, (seed, "again", number, one.draw)) for one in able}
    return [one.group for one in sorted(able, key=lambda one: (places[one.group], one.draw))[:most]]


def _place(one: Trained, rule: ExperienceReplay, key: tuple[object, ...]) -> float:
    """The lower, the sooner it comes."""
    match rule.name:
        case "linear_decay":
            return -linear_decay(one.version, one.uses, decay=rule.decay)[0]
        case "decay_with_limit":
            draw = random.Random(":".join(map(str, key)))
            return -decay_with_limit(one.version, one.uses, decay=rule.decay, sigma=rule.sigma, draw=draw)[0]
        case "prioritized":
            return _wait(unit(*key), (one.advantage + LEAST_WEIGHT) ** rule.alpha)
    return _wait(unit(*key), 1.0)
