"""The selection of groups from the buffer for a step, as pure functions of group statistics."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import pstdev, pvariance

from apps.buffer.priorities import decay_with_limit, linear_decay
from apps.runs.reading import ExperienceReplay, NoReplay, Order
from apps.tasksets.selection.chance import unit

# of a group that has nothing for it: none is out of the question (Schaul et al. 2016, eq. 1)
MIN_WEIGHT = 0.01


@dataclass(frozen=True)
class ReadyGroup:
    """A group that no step has taken yet.

    `version` is the oldest weight version that sampled any token of it, and `is_rated` says whether
    a person rated it. `kind` is the domain or task id by which `rarity` counts it.
    """

    group: int
    draw: int
    version: int
    rewards: Sequence[float]
    is_rated: bool = False
    kind: str | int = ""


@dataclass(frozen=True)
class ReadingState:
    """The state of the run for which groups are ordered: before step `number`, at `version`.

    `learned` holds, by kind, how many groups the steps counted by `rarity` took.
    """

    version: int
    number: int = 0
    seed: int = 0
    learned: Mapping[str | int, int] | None = None


def order_groups(groups: Sequence[ReadyGroup], rule: Order, now: ReadingState) -> list[int]:
    """Return the groups' ids in the order in which to learn from them; ties keep draw order."""
    places: Mapping[int, float] = {}
    if rule.name == "rarity":
        places = _turns(groups, now.learned or {})
    if not places:
        places = {group.group: -_worth(group, rule, now) for group in groups}
    ordered = sorted(groups, key=lambda group: (places[group.group], group.draw))
    return [group.group for group in ordered]


def _worth(group: ReadyGroup, rule: Order, now: ReadingState) -> float:
    age = now.version - group.version
    match rule.name:
        case "freshest":
            return group.version
        case "priority":
            return (
                rule.people * group.is_rated + rule.spread * pstdev(group.rewards) - rule.age * age
            )
        case "reward_variance":
            return pvariance(group.rewards)
        case "human_first":
            return float(group.is_rated)
        case "weighted":
            weight = (
                rule.people * group.is_rated + rule.spread * pstdev(group.rewards) + MIN_WEIGHT
            ) * math.exp(-rule.age * age)
            return -_wait(unit(now.seed, "first", now.number, group.draw), weight)
    return 0.0


def _turns(groups: Sequence[ReadyGroup], learned: Mapping[str | int, int]) -> dict[int, int]:
    """Return, for each group, how many groups of its kind are taken before it.

    Taking the group with the lowest number first takes the rarest kind each time.
    """
    counts = Counter(learned)
    turns = {}
    for group in sorted(groups, key=lambda group: group.draw):
        turns[group.group] = counts[group.kind]
        counts[group.kind] += 1
    return turns


def _wait(chance: float, weight: float) -> float:
    """Return an exponential waiting time with rate `weight`, from a `chance` in [0, 1).

    Smaller times go first. This is the order by largest u^(1/w) of Efraimidis and Spirakis (2006,
    "Weighted random sampling with a reservoir", algorithm A), u = 1 − chance, computed as -ln(u)/w,
    which does not underflow.
    """
    return -math.log1p(-chance) / weight if weight else math.inf


@dataclass(frozen=True)
class TrainedGroup:
    """A group that `uses` steps took, the newest of which is number `last`.

    `version` is the oldest weight version that sampled any of it; `advantage` is the mean of its
    rollouts' |advantage| in step `last`.
    """

    group: int
    draw: int
    version: int
    uses: int
    last: int
    advantage: float


def taken_again(
    groups: Sequence[TrainedGroup],
    rule: ExperienceReplay,
    *,
    number: int,
    limit: int,
    oldest: int,
    seed: int,
) -> list[int]:
    """Return the ids of at most `limit` groups that step `number` replays by the rule.

    Groups older than version `oldest` are not replayed. Neither are groups that reached
    `rule.max_uses`, or that one of the last `rule.cool_down` steps took. Random choices depend
    only on the seed, the step and each group's draw, so the same rows give the same answer.
    """
    if isinstance(rule, NoReplay):
        return []
    able = [
        group
        for group in groups
        if group.version >= oldest
        and group.uses < rule.max_uses
        and number - group.last > rule.cool_down
    ]
    places = {
        group.group: _place(group, rule, (seed, "again", number, group.draw)) for group in able
    }
    return [
        group.group
        for group in sorted(able, key=lambda group: (places[group.group], group.draw))[:limit]
    ]


def _place(group: TrainedGroup, rule: ExperienceReplay, key: tuple[object, ...]) -> float:
    """Return the sort key of a group: lower comes first."""
    match rule.name:
        case "linear_decay":
            return -linear_decay(group.version, group.uses, decay=rule.decay)[0]
        case "decay_with_limit":
            draw = random.Random(":".join(map(str, key)))
            return -decay_with_limit(
                group.version, group.uses, decay=rule.decay, sigma=rule.sigma, draw=draw
            )[0]
        case "prioritized":
            return _wait(unit(*key), (group.advantage + MIN_WEIGHT) ** rule.alpha)
    return _wait(unit(*key), 1.0)
