"""Hostile text in every free text of the database, as a model, a prompt, a rater, an owner or an
import could have written it.

A new column is poisoned automatically, unless its values are chosen by the code; such columns are
listed here.
"""

from itertools import count

from django.apps import apps
from django.db import models

from apps.environments.models import Environment, EpisodeTurn
from apps.runs.models import Run
from apps.tasksets.models import Task
from tests.rollouts.hostile import PAYLOADS

# Valid in PostgreSQL and JSON: no NUL.
HOSTILE = [payload.replace("\x00", "") for payload in PAYLOADS]
OURS = (
    "accounts",
    "tasksets",
    "policies",
    "streaming",
    "runs",
    "rollouts",
    "buffer",
    "rewards",
    "pipelines",
    "environments",
    "feedback",
    "evaluation",
)
# Names, numbers and paths created by the code, which only look like free text.
CHOSEN = {
    "password",
    "email",
    "digest",
    "last_four",
    "key",
    "folder",
    "fingerprint",
    "form",
    "scorer",
    "source",
    "kind",
    "state",
    "name",
    "lease_owner",
    "owner_key",
    "engine",
    "host",
    "role",
    "architecture",
    "advantage",
}


def free_texts(model: type[models.Model]) -> list[str]:
    """Return the model's columns that hold free text."""
    kinds = (models.CharField, models.TextField)
    never = (models.SlugField, models.UUIDField, models.EmailField, models.URLField)
    return [
        field.name
        for field in model._meta.concrete_fields
        if isinstance(field, kinds)
        and not isinstance(field, never)
        and not field.choices
        and field.name not in CHOSEN
    ]


def poison(run: Run) -> int:
    """Poison all rows and the run's guidelines; return the number of poisoned texts."""
    turn = count()
    poisoned = 0
    for model in apps.get_models():
        if model._meta.app_label not in OURS:
            continue
        names = free_texts(model)
        rows = list(model._default_manager.all()) if names else []
        for row in rows:
            for name in names:
                setattr(row, name, _fitting(row, model._meta.get_field(name), next(turn)))
                poisoned += 1
        model._default_manager.bulk_update(rows, names) if rows else None
    for n, task in enumerate(Task.objects.all()):
        roles = ("system", "user")
        task.prompt = [
            {"role": role, "content": "\n\n".join(HOSTILE[n % 7 :: 7])} for role in roles
        ]
        task.save(update_fields=["prompt"])
    for n, said in enumerate(EpisodeTurn.objects.all()):
        said.observation = [
            {"role": role, "content": "\n\n".join(HOSTILE[n % 7 :: 7])} for role in ("tool", "user")
        ]
        said.info = {HOSTILE[n % len(HOSTILE)]: HOSTILE[::7]}
        said.save(update_fields=["observation", "info"])
    for place in Environment.objects.all():
        place.observation_schema = {"description": HOSTILE}
        place.options = {"words": HOSTILE}
        place.save(update_fields=["observation_schema", "options"])
    run.refresh_from_db()
    run.config["people"]["guidelines"] = "\n\n".join(HOSTILE)[:20_000]
    run.save(update_fields=["config"])
    return poisoned


def _fitting(row: models.Model, field: models.Field, turn: int) -> str:
    """Return the next payload, cut to the column's length; a rollout gets many in a row, and names
    stay unique.
    """
    if field.model.__name__ == "Rollout" and field.name == "text":
        return "\n\n".join(HOSTILE[turn % 9 :: 9])
    if field.unique:
        return f"{HOSTILE[turn % len(HOSTILE)][:100]} {row.pk}"
    return HOSTILE[turn % len(HOSTILE)][: field.max_length or None]
