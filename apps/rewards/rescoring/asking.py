"""Asking for a new set of rewards: its scorers are looked at exactly as a run's are when it is made."""

import json

from apps.accounts import strict_json
from apps.accounts.models import User
from apps.rewards.models import Rescoring
from apps.rewards.rescoring.choosing import Chosen, groups_of
from apps.rewards.scoring import require_known_scorers
from apps.runs.config import ConfigError, RunConfig, loaded, parse
from apps.runs.models import Run

SHAPE = "must be a list of scorers, such as `- {scorer: math, weight: 0.5}`"


class NothingToRescore(ValueError):
    """There is nothing to judge; the message says why."""


def scorers_in(text: str) -> object:
    """The scorers of a YAML text: a list, or a mapping that has it under `rewards`. Raises ConfigError."""
    said = loaded(text)
    try:  # as JSON, so that nothing comes in that cannot be stored: NUL, NaN, half of a character
        said = strict_json.decode(json.dumps(said, default=str).encode())
    except (strict_json.NotStrictJson, TypeError, RecursionError) as error:
        raise ConfigError({"rewards": f"cannot be stored: {error}"}) from None
    return said["rewards"] if isinstance(said, dict) and list(said) == ["rewards"] else said


def planned(run: Run, rewards: object, domain: str = "") -> RunConfig:
    """The run's configuration with these scorers in the place of its own. Raises ConfigError naming their fields."""
    if not isinstance(rewards, list) or not rewards:
        raise ConfigError({"rewards": SHAPE})
    plan = parse({**run.settings.model_dump(mode="json"), "rewards": rewards})
    require_known_scorers(plan, run.project, domain)
    return plan


def ask(run: Run, rewards: object, chosen: Chosen, by: User | None = None) -> Rescoring:
    """Have the scorers judge what is chosen again. Raises ConfigError and NothingToRescore; nothing is kept then."""
    if run.settings.algorithm.learns_from_lessons:
        raise NothingToRescore(f"{run.slug} learns from lessons, which no scorer judges")
    plan = planned(run, rewards, chosen.domain)
    groups = groups_of(run, chosen)
    if not groups:
        raise NothingToRescore(f"no judged rollouts of {run.slug} fit: {chosen.words}, at most {chosen.most:,} in whole groups")
    return Rescoring.create(run, plan, chosen.model_dump(exclude_none=True), groups, by)
