"""Harder tasks on the command line: select solved tasks, and create a taskset from them."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Sequence

from django.core.management.base import CommandError
from django.db import IntegrityError
from django.db.models import QuerySet

from apps.rollouts.task_stats import TaskRecord
from apps.tasksets.harder_tasks import GRADED, describe_ungraded, make_harder_taskset
from apps.tasksets.models import Task, Taskset
from rftweb.management.console import run_named, show_progress_bar
from rftweb.management.taskset_origin import named_origin

ROUNDING = 1e-9
MAX_PER_TASK = 1_000


def add_harder(verbs: _SubParsersAction) -> ArgumentParser:
    hardening = verbs.add_parser(
        "harder",
        help=f"create a taskset one grade harder than the solved tasks: {', '.join(GRADED)}",
    )
    hardening.add_argument("slug", help="slug of the taskset with the solved tasks")
    solved = hardening.add_mutually_exclusive_group(required=True)
    solved.add_argument("--run", help="solved in this run")
    solved.add_argument("--scale", help="solved according to this scale of `taskset difficulty`")
    hardening.add_argument(
        "--min-success-rate",
        type=float,
        default=0.8,
        help="success rate, from 0 to 1, from which a task counts as solved",
    )
    hardening.add_argument(
        "--min-attempts",
        type=int,
        default=4,
        help="minimum number of attempts in the run; tasks with fewer do not count",
    )
    hardening.add_argument("--per-task", type=int, default=1, help="harder tasks per solved task")
    hardening.add_argument("--seed", type=int, default=0)
    hardening.add_argument(
        "--name", help="name of the new taskset (default: the old one's with -harder)"
    )
    return hardening


def create_harder_taskset(taskset: Taskset, options: dict) -> tuple[Taskset, Sequence[str]]:
    """Create the taskset; return it and lines about tasks that gave none. Raise CommandError."""
    _require_bounds(options)
    parents, by = _solved(taskset, options)
    count = parents.count()
    slug = options["name"] or f"{taskset.slug}-harder"
    if not count:
        raise CommandError(
            f"no task of {taskset.slug} is solved by {by}: a success rate of "
            f"{options['min_success_rate']:g} or more"
        )
    source = f"one grade harder than what is solved of {taskset.slug} by {by}"
    origin = named_origin(
        "--name",
        taskset.project,
        slug,
        f"Harder than {taskset.slug}",
        source[:200],
        options["seed"],
    )
    try:
        with show_progress_bar(f"generating {slug}", count * options["per_task"]) as progress:
            harder, ungraded = make_harder_taskset(
                taskset, parents, origin, options["per_task"], progress
            )
    except IntegrityError:
        raise CommandError(
            f"--name: taskset {slug!r} already exists; choose another name"
        ) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    return harder, [f"left out: {describe_ungraded(ungraded)}"] if ungraded else []


def _solved(taskset: Taskset, options: dict) -> tuple[QuerySet[Task], str]:
    """Return the tasks whose success rate is high enough, and the source of the rates."""
    if options["run"]:
        run = run_named(options["run"], taskset.project.slug)
        records = TaskRecord.objects.filter(run=run, task__taskset=taskset)
        if not records.exists():
            raise CommandError(f"--run: {run.slug} has not tried any task of {taskset.slug}")
        records = records.solved(options["min_success_rate"] - ROUNDING, options["min_attempts"])
        return taskset.tasks.filter(pk__in=records.values("task")), run.slug
    scale = taskset.scales.filter(name=options["scale"]).first()
    if scale is None or not scale.is_estimated:
        raise CommandError(
            f"--scale: {taskset.slug} has no scale {options['scale']!r} of `manage.py taskset"
            " difficulty`"
        )
    easy = scale.difficulties.filter(value__lte=1.0 - options["min_success_rate"] + ROUNDING)
    return taskset.tasks.filter(pk__in=easy.values("task")), scale.source


def _require_bounds(options: dict) -> None:
    if not 0 <= options["min_success_rate"] <= 1:
        raise CommandError("--min-success-rate: must be from 0 to 1")
    if options["min_attempts"] < 1:
        raise CommandError("--min-attempts: must be 1 or more")
    if not 1 <= options["per_task"] <= MAX_PER_TASK:
        raise CommandError(f"--per-task: must be from 1 to {MAX_PER_TASK}")
