"""Evaluating a weight version: a run of its own is made and started, once for the same question."""

from collections.abc import Collection

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.rewards.scoring import require_known_scorers
from apps.runs.config import ConfigError, RunConfig, parse
from apps.runs.costs import used_up
from apps.runs.evaluated import why_not
from apps.runs.evaluation import Asked, set_of
from apps.runs.models import Run, WeightVersion
from apps.runs.naming import LONGEST_SLUG, free_name


@unit_of_work
def evaluate(version: WeightVersion, asked: Asked, by: User | None = None, again: bool = False) -> tuple[Run, bool]:
    """The evaluation that asks this version this, started; and whether it was made now.

    The same question is not asked twice, unless `again`, or the first time was stopped. Raises ConfigError: the version's folder
    is gone, the taskset is not there, nobody would judge the answers, or the run's budget is used up.
    """
    run = Run.locked(version.run_id, "project")
    version.refresh_from_db()
    plan = plan_of(run, version.version, asked)
    known = evaluations_of(version).filter(evaluation_set=set_of(plan))
    if not again and (found := known.exclude(state=Run.State.STOPPED).order_by("-pk").first()):
        return found, False
    if reason := why_not(version) or used_up(run):
        raise ConfigError({"evaluation.version": reason})
    require_known_scorers(plan, run.project)
    if count := known.count():  # another sample, not the same one once more
        plan = plan.model_copy(update={"seed": (plan.seed + count) % 2**31})
    slug = free_name(f"{run.slug[: LONGEST_SLUG - 20]}-v{version.version}-{asked.taskset}"[:LONGEST_SLUG], run.project.runs)
    title = f"{run.title}, version {version.version} on {asked.taskset}"[:200]
    made = Run.create(project=run.project, slug=slug, title=title, plan=plan, owner=by or run.owner)
    made.start(by)
    told = {"version": version.version, "evaluation": made.slug, "taskset": asked.taskset, "samples": asked.samples}
    run.topic.record("version_evaluated", **told, by=str(by or ""))
    return made, True


@unit_of_work
def evaluate_several(
    run: Run, numbers: Collection[int] | None, asked: Asked, by: User | None = None, again: bool = False
) -> list[tuple[Run, bool]]:
    """As `evaluate`, the versions of these numbers, None: all whose folders are kept. All of them are asked, or none is.

    Raises ConfigError. None of them retires in between, which takes the run's row.
    """
    Run.locked(run.pk)
    versions = run.weight_versions.order_by("version")
    if numbers is None:
        found = list(versions.filter(state=WeightVersion.State.PUBLISHED))
    else:
        found = list(versions.filter(version__in=numbers))
        if missing := sorted(set(numbers) - {one.version for one in found}):
            raise ConfigError({"version": f"{run.slug!r} has no version {', '.join(map(str, missing))}"})
    if not found:
        raise ConfigError({"version": "choose one or more of the versions whose folders are kept"})
    return [evaluate(one, asked, by, again) for one in found]


def evaluations_of(version: WeightVersion):
    """All of this version, whatever they ask. Version 0 of a run is asked as that run's."""
    return version.evaluations.all()


def plan_of(run: Run, version: int, asked: Asked) -> RunConfig:
    """The configuration that asks a version of the run this: as the run samples and judges, where nothing else is said.

    Raises ConfigError.
    """
    own = run.settings.model_dump(mode="json")
    # Callers are the environment of a run that serves: nobody would play it.
    environment = None if run.settings.serve else own["environment"]
    told = {"temperature": asked.temperature, "max_tokens": asked.max_tokens}
    rewards = [choice.model_dump(mode="json") for choice in asked.rewards] or own["rewards"]
    return parse(
        {
            "policy": own["policy"],
            "taskset": asked.taskset,
            "steps": 0,
            "group_size": asked.samples,
            "engine": own["engine"],
            "seed": own["seed"],
            "group_attempts": own["group_attempts"],
            "sampling": {**own["sampling"], "older_segments": "learn", **{k: v for k, v in told.items() if v is not None}},
            "rewards": [{**choice, "trust": None} for choice in rewards],
            "environment": environment,
            "people": _people(own["people"], asked, bool(rewards or environment)),
            "retention": own["retention"],
            "evaluation": {"run": run.slug, "version": version, "tasks": asked.tasks, "right_from": asked.right_from},
        }
    )


def _people(own: dict, asked: Asked, has_machines: bool) -> dict:
    """The run's section, without what learns of their decisions; who does not say a word in time leaves the answer unjudged."""
    if not asked.people:
        return {}
    at_deadline = "machine_only" if has_machines else "drop"
    return {**own, "per_group": asked.people, "rater_model": None, "schedule": None, "at_deadline": at_deadline}
