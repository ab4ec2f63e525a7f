"""From judgements to the one number a rollout is trained on: a pure rule of the run's configuration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.rewards.scorers import find, names
from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.judged_by import Kind

NO_KIND = Kind()  # of a task that says nothing of itself
RATER_MODEL = "rater_model"  # the scorer whose word is what people would say
PEOPLE = "people"  # the scorer whose word is what all who judged a rollout say together


@dataclass(frozen=True)
class Judgement:
    """What one scorer, or one person or all of them together (`is_human`), said; value None is a failure, not a zero.

    `source`: of which kind it is, as its row says (rule, model, environment, human); "" where nobody asks.
    `is_simulated`: the simulated rater alone said it. It counts as people's, and is named apart.
    """

    scorer: str
    value: float | None
    is_human: bool = False
    source: str = ""
    is_simulated: bool = False


def combined(judgements: Sequence[Judgement], plan: RunConfig, kind: Kind = NO_KIND) -> float | None:
    """The reward of a rollout at a task of this kind, or None when it has none.

    machine = Σ weight × value over the task's scorers and the environment, None while any is missing or failed; people =
    what they say together, once that was made of their votes (`people.aggregation`), until then the mean of the current
    ratings; in a run with a rater model, what that says people would give. Where both exist: share × people +
    (1 − share) × machine, share = `people.weight`. A person's None is a flag: whatever else was said, what is broken has
    no reward.
    """
    if any(said.value is None for said in _together(judgements)):
        return None
    machine = machine_reward(judgements, plan.judges_of(kind))
    # A rater model has learned what people said: where there is one it speaks for them, of all rollouts that they are asked about.
    is_foretold = plan.people.rater_model and plan.people.asks_about(kind.domain)
    people = _foretold(judgements) if is_foretold else peoples_word(judgements)
    if people is None or machine is None:
        return machine if people is None else people
    return plan.people.weight * people + (1 - plan.people.weight) * machine


def peoples_word(judgements: Sequence[Judgement]) -> float | None:
    """What people say of a rollout: together, once that was made of their votes, until then the mean of what each said.

    None where they said nothing, and where it is flagged as broken. What machines said is passed over.
    """
    said = [judgement.value for judgement in _together(judgements)]
    return None if not said or None in said else math.fsum(said) / len(said)


def _together(judgements: Sequence[Judgement]) -> list[Judgement]:
    """People's: what they say together alone, where there is that."""
    people = [judgement for judgement in judgements if judgement.is_human]
    return [judgement for judgement in people if judgement.scorer == PEOPLE] or people


def _foretold(judgements: Sequence[Judgement]) -> float | None:
    return next((judgement.value for judgement in judgements if judgement.scorer == RATER_MODEL), None)


def machine_reward(judgements: Sequence[Judgement], judges: Sequence[ScorerChoice]) -> float | None:
    """Σ weight × value of these judges, None while one of them is missing or has failed. People's words are passed over."""
    said = {judgement.scorer: judgement.value for judgement in judgements if not judgement.is_human}
    values = [said.get(choice.scorer) for choice in judges]
    if not values or any(value is None for value in values):
        return None
    return math.fsum(choice.weight * value for choice, value in zip(judges, values, strict=True))


def machine_parts(judgements: Sequence[Judgement], judges: Sequence[ScorerChoice]) -> dict[str, float]:
    """What of `machine_reward` each source gives: Σ weight × value of its judges, those of weight 0 left out.

    Empty where there is no such reward.
    """
    if machine_reward(judgements, judges) is None:
        return {}
    said = {judgement.scorer: judgement for judgement in judgements if not judgement.is_human}
    weights = {choice.scorer: choice.weight for choice in judges if choice.weight}
    sources = sorted({said[scorer].source for scorer in weights})
    return {
        source: math.fsum(weight * said[scorer].value for scorer, weight in weights.items() if said[scorer].source == source)
        for source in sources
    }


def full_reward(plan: RunConfig, kind: Kind = NO_KIND) -> float:
    """What a rollout at a task of this kind gets when every scorer (or, without any, every person) gives all it can."""
    return math.fsum(max(choice.weight * end for end in range_of(choice.scorer)) for choice in plan.judges_of(kind)) or 1.0


def success(reward: float, plan: RunConfig, kind: Kind = NO_KIND) -> float:
    """The reward as a share of the full one, from 0 to 1."""
    full = full_reward(plan, kind)
    return min(1.0, max(0.0, reward / full)) if full > 0 else float(reward >= full)


def range_of(scorer: str) -> tuple[float, float]:
    """Of a scorer's values; environments and learned scorers are taken to give from 0 to 1."""
    return (find(scorer).low, find(scorer).high) if scorer in names() else (0.0, 1.0)
