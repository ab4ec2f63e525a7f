"""Evaluate a weight version: create and start a run, once for the same question."""

from collections.abc import Collection

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.rewards.scoring import require_known_scorers
from apps.runs.config import ConfigError, RunConfig
from apps.runs.costs import used_up
from apps.runs.evaluation import Questions, evaluation_key
from apps.runs.models import Run, WeightVersion
from apps.runs.naming import MAX_SLUG_LENGTH, free_name
from apps.runs.parsing import parse_config

NOBODY_JUDGES = (
    "the run has no scorers: enter how many replies of each task people rate, or choose scorers"
)


@unit_of_work
def start_evaluation(
    version: WeightVersion, questions: Questions, by: User | None = None, force: bool = False
) -> tuple[Run, bool]:
    """Return the version's evaluation with these settings, started, and whether it is new.

    The same evaluation is not run twice, unless `again`, or the first one was stopped. Raises
    ConfigError: the version's folder is deleted, the taskset does not exist, nobody would judge the
    answers, or the run's budget is used up.
    """
    run = Run.locked(version.run_id, "project")
    version.refresh_from_db()
    plan = evaluation_plan(run, version.version, questions)
    earlier = list_version_evaluations(version).filter(evaluation_set=evaluation_key(plan))
    if not force and (
        existing := earlier.kept().exclude(state=Run.State.STOPPED).order_by("-pk").first()
    ):
        return existing, False
    if reason := version.why_not_evaluated() or used_up(run):
        raise ConfigError({"evaluation.version": reason})
    require_known_scorers(plan, run.project)
    if count := earlier.count():  # a repeat is another sample, not the same one
        plan = plan.model_copy(update={"seed": (plan.seed + count) % 2**31})
    slug = free_name(
        f"{run.slug[: MAX_SLUG_LENGTH - 20]}-v{version.version}-{questions.taskset}"[
            :MAX_SLUG_LENGTH
        ],
        run.project.runs.all(),
    )
    title = f"{run.title}, version {version.version} on {questions.taskset}"[:200]
    created = Run.create(
        project=run.project, slug=slug, title=title, plan=plan, owner=by or run.owner
    )
    created.start(by)
    payload = {
        "version": version.version,
        "evaluation": created.slug,
        "taskset": questions.taskset,
        "samples": questions.samples,
    }
    run.topic.record("version_evaluated", **payload, by=str(by or ""))
    return created, True


@unit_of_work
def evaluate_several(
    run: Run,
    numbers: Collection[int] | None,
    questions: Questions,
    by: User | None = None,
    force: bool = False,
) -> list[tuple[Run, bool]]:
    """Evaluate the versions of these numbers, or with None all whose folders are kept.

    Either all are started, or none. The run's row is locked, so no version is retired in between.
    Raises ConfigError.
    """
    Run.locked(run.pk)
    versions = run.weight_versions.order_by("version")
    if numbers is None:
        chosen = list(versions.filter(state=WeightVersion.State.PUBLISHED))
    else:
        chosen = list(versions.filter(version__in=numbers))
        if missing := sorted(set(numbers) - {version.version for version in chosen}):
            raise ConfigError(
                {"version": f"{run.slug!r} has no version {', '.join(map(str, missing))}"}
            )
    if not chosen:
        raise ConfigError({"version": "choose one or more versions with stored weights"})
    return [start_evaluation(version, questions, by, force) for version in chosen]


def list_version_evaluations(version: WeightVersion):
    """Return all evaluations of this version. Version 0 counts as that of the run itself."""
    return version.evaluations.all()


def evaluation_plan(run: Run, version: int, questions: Questions) -> RunConfig:
    """Return the configuration of an evaluation; by default the run's sampling and scoring.

    Raises ConfigError.
    """
    return evaluation_like(run.settings, questions, run.slug, version)


def evaluation_like(
    like: RunConfig, questions: Questions, run: str = "", version: int = 0
) -> RunConfig:
    """Return the configuration of an evaluation that samples and scores as `like` does.

    `run` is the slug of the run whose version is evaluated; "" means the policy's own weights.
    Raises ConfigError.
    """
    plan = like.model_dump(mode="json")
    # A run that serves has API callers as its environment: nobody would play it.
    environment = None if like.serve else plan["environment"]
    sampling = {"temperature": questions.temperature, "max_tokens": questions.max_tokens}
    rewards = [choice.model_dump(mode="json") for choice in questions.rewards] or plan["rewards"]
    if not (rewards or environment or questions.people):
        raise ConfigError({"people": NOBODY_JUDGES})
    return parse_config(
        {
            "policy": plan["policy"],
            "taskset": questions.taskset,
            "steps": 0,
            "group_size": questions.samples,
            "engine": plan["engine"],
            "precision": plan["precision"],
            "vllm": like.vllm.for_evaluation().model_dump(mode="json"),
            "seed": plan["seed"],
            "group_attempts": plan["group_attempts"],
            "sampling": {
                **plan["sampling"],
                "older_segments": "learn",
                **{k: v for k, v in sampling.items() if v is not None},
            },
            "rewards": [{**choice, "trust": None} for choice in rewards],
            "environment": environment,
            "people": _people(plan["people"], questions, bool(rewards or environment)),
            "retention": plan["retention"],
            "evaluation": {
                "run": run,
                "version": version,
                "tasks": questions.tasks,
                "correct_threshold": questions.correct_threshold,
            },
        }
    )


def _people(section: dict, questions: Questions, has_machines: bool) -> dict:
    """Return the run's `people` section for an evaluation.

    Nothing learns from the decisions, and an answer that is not judged in time stays without a
    reward.
    """
    if not questions.people:
        return {}
    at_deadline = "machine_only" if has_machines else "drop"
    return {
        **section,
        "per_group": questions.people,
        "rater_model": None,
        "schedule": None,
        "at_deadline": at_deadline,
    }
