"""Combination of judgements to the reward that is trained on, by the run's configuration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.rewards.scorers import find_scorer, scorer_names
from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.judged_by import Kind

NO_KIND = Kind()  # of a task that says nothing of itself
RATER_MODEL = "rater_model"  # the scorer whose value predicts people's
PEOPLE = "people"  # the scorer whose value combines all people's judgements of a rollout


@dataclass(frozen=True)
class Judgement:
    """Judgement by one scorer, one person or all people together (`is_human`).

    A value of None is a failure, not a zero. `source`: its kind, as its row records it (rule,
    model, environment, human); "" if no caller needs it. `is_simulated`: only the simulated rater
    gave it. It counts as people's, and is named apart.
    """

    scorer: str
    value: float | None
    is_human: bool = False
    source: str = ""
    is_simulated: bool = False


def combined(
    judgements: Sequence[Judgement], plan: RunConfig, kind: Kind = NO_KIND
) -> float | None:
    """Return the reward of a rollout at a task of this kind, or None when it has none.

    machine = Σ weight × value over the task's scorers and the environment, None while any is
    missing or failed; people = what they say together, once that was made of their votes
    (`people.aggregation`), until then the mean of the current ratings; in a run with a rater model,
    what that says people would give. Where both exist: share × people + (1 − share) × machine,
    share = `people.weight`. A person's None is a flag: whatever others gave, what is broken has
    no reward.
    """
    if any(judgement.value is None for judgement in _people_judgements(judgements)):
        return None
    machine = machine_reward(judgements, plan.judges_of(kind))
    # A rater model has learned people's ratings: where there is one it stands for them, for all
    # rollouts that they are asked about.
    is_predicted = plan.people.rater_model and plan.people.asks_about(kind.domain)
    people = _predicted_value(judgements) if is_predicted else peoples_word(judgements)
    if people is None or machine is None:
        return machine if people is None else people
    return plan.people.weight * people + (1 - plan.people.weight) * machine


def peoples_word(judgements: Sequence[Judgement]) -> float | None:
    """Return people's combined value of a rollout, or the mean of their values until it exists.

    Return None if no person judged it, or if it is flagged as broken. Machines' judgements are
    ignored.
    """
    values = [judgement.value for judgement in _people_judgements(judgements)]
    known_values = [value for value in values if value is not None]
    return (
        None
        if not known_values or len(known_values) < len(values)
        else math.fsum(known_values) / len(known_values)
    )


def _people_judgements(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return people's combined judgement if there is one, else their single judgements."""
    people = [judgement for judgement in judgements if judgement.is_human]
    return [judgement for judgement in people if judgement.scorer == PEOPLE] or people


def _predicted_value(judgements: Sequence[Judgement]) -> float | None:
    return next(
        (judgement.value for judgement in judgements if judgement.scorer == RATER_MODEL), None
    )


def machine_reward(judgements: Sequence[Judgement], judges: Sequence[ScorerChoice]) -> float | None:
    """Return Σ weight × value of these judges, None while one is missing or has failed.

    People's judgements are ignored.
    """
    values_by_scorer = {
        judgement.scorer: judgement.value for judgement in judgements if not judgement.is_human
    }
    values = [values_by_scorer.get(choice.scorer) for choice in judges]
    known_values = [value for value in values if value is not None]
    if not known_values or len(known_values) < len(values):
        return None
    return math.fsum(
        choice.weight * value for choice, value in zip(judges, known_values, strict=True)
    )


def machine_parts(
    judgements: Sequence[Judgement], judges: Sequence[ScorerChoice]
) -> dict[str, float]:
    """Return each source's part of `machine_reward`: Σ weight × value of its judges.

    Judges of weight 0 are left out. The result is empty if there is no machine reward.
    """
    if machine_reward(judgements, judges) is None:
        return {}
    by_scorer = {judgement.scorer: judgement for judgement in judgements if not judgement.is_human}
    weights = {choice.scorer: choice.weight for choice in judges if choice.weight}
    sources = sorted({by_scorer[scorer].source for scorer in weights})
    return {
        source: math.fsum(
            weight * value
            for scorer, weight in weights.items()
            if by_scorer[scorer].source == source and (value := by_scorer[scorer].value) is not None
        )
        for source in sources
    }


def full_reward(plan: RunConfig, kind: Kind = NO_KIND) -> float:
    """Return the highest reward of a rollout at a task of this kind.

    Every scorer (or, without any, every person) then gives its highest value.
    """
    return (
        math.fsum(
            max(choice.weight * end for end in find_scorer_range(choice.scorer))
            for choice in plan.judges_of(kind)
        )
        or 1.0
    )


def success(reward: float, full: float) -> float:
    """Return the reward as a share of the full one (`full_reward`), from 0 to 1."""
    return min(1.0, max(0.0, reward / full)) if full > 0 else float(reward >= full)


def find_scorer_range(scorer: str) -> tuple[float, float]:
    """Return a scorer's lowest and highest value; 0 and 1 for environments and learned scorers."""
    return (
        (find_scorer(scorer).low, find_scorer(scorer).high)
        if scorer in scorer_names()
        else (0.0, 1.0)
    )
