"""Requests for a rescoring, whose scorers are checked exactly as those of a new run."""

import json

from apps.accounts import strict_json
from apps.accounts.models import User
from apps.rewards.models import Rescoring
from apps.rewards.rescoring.choosing import Chosen, list_chosen_groups
from apps.rewards.scoring import require_known_scorers
from apps.runs.config import ConfigError, RunConfig
from apps.runs.models import Run
from apps.runs.parsing import load_yaml, parse_config

SHAPE = "must be a list of scorers, such as `- {scorer: math, weight: 0.5}`"


class NothingToRescore(ValueError):
    """Raised if there is nothing to judge; the message says why."""


def scorers_in(text: str) -> object:
    """Return the scorers of a YAML text: a list, or a mapping that has it under `rewards`.

    Raises ConfigError.
    """
    document = load_yaml(text)
    try:  # as JSON, so that nothing comes in that cannot be stored: NUL, NaN, half of a character
        document = strict_json.decode_json(json.dumps(document, default=str).encode())
    except (strict_json.NotStrictJson, TypeError, RecursionError) as error:
        raise ConfigError({"rewards": f"cannot be stored: {error}"}) from None
    return (
        document["rewards"]
        if isinstance(document, dict) and list(document) == ["rewards"]
        else document
    )


def planned(run: Run, rewards: object, domain: str = "") -> RunConfig:
    """Return the run's configuration with these scorers instead of its own.

    Raises ConfigError naming their fields.
    """
    if not isinstance(rewards, list) or not rewards:
        raise ConfigError({"rewards": SHAPE})
    plan = parse_config({**run.settings.model_dump(mode="json"), "rewards": rewards})
    require_known_scorers(plan, run.project, domain)
    return plan


def start_rescoring(run: Run, rewards: object, chosen: Chosen, by: User | None = None) -> Rescoring:
    """Score the chosen rollouts again.

    Raises ConfigError and NothingToRescore; nothing is kept then.
    """
    if run.settings.algorithm.learns_from_lessons:
        raise NothingToRescore(f"{run.slug} trains on lessons, which scorers do not score")
    plan = planned(run, rewards, chosen.domain)
    groups = list_chosen_groups(run, chosen)
    if not groups:
        raise NothingToRescore(
            f"no scored rollouts of {run.slug} match: {chosen.words}, at most {chosen.limit:,} in "
            "whole groups"
        )
    return Rescoring.create(run, plan, chosen.model_dump(exclude_none=True), groups, by)
