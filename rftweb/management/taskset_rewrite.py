"""Rephrase tasks on the command line: the model to ask, and the taskset made from its replies."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Sequence

from django.core.management.base import CommandError
from django.db import IntegrityError
from pydantic import ValidationError

from apps.rewards.judging.asking import JudgeOptions
from apps.tasksets.models import Taskset
from rftweb.management.console import show_progress_bar
from rftweb.management.taskset_origin import named_origin
from workers.rewriting import Unanswered, rewrite

MAX_PER_TASK = 32


def add_rewrite(verbs: _SubParsersAction) -> ArgumentParser:
    rewriting = verbs.add_parser(
        "rewrite", help="create a taskset with the tasks in other words and the same answers"
    )
    rewriting.add_argument("slug", help="of the taskset")
    rewriting.add_argument(
        "--address", required=True, help="address of an OpenAI-compatible service, including /v1"
    )
    rewriting.add_argument("--model", required=True, help="the service's name of the model")
    rewriting.add_argument("--per-task", type=int, default=1, help="rewrites per task")
    rewriting.add_argument("--temperature", type=float, default=0.7, help="sampling temperature")
    rewriting.add_argument(
        "--max-tokens",
        type=int,
        default=1024,
        help="maximum length of a reply, including reasoning, in tokens",
    )
    rewriting.add_argument(
        "--timeout-s",
        type=float,
        default=60.0,
        help="time limit for a reply, in seconds; each request is repeated up to two times",
    )
    rewriting.add_argument("--limit", type=int, help="number of tasks, from the start of the set")
    rewriting.add_argument(
        "--set-aside",
        action="store_true",
        help="list tasks that got no reply instead of storing nothing",
    )
    rewriting.add_argument(
        "--name", help="name of the new taskset (default: the old one's with -rewritten)"
    )
    return rewriting


def create_rewritten_taskset(taskset: Taskset, options: dict) -> tuple[Taskset, Sequence[str]]:
    """Create the taskset; return it and lines about refused tasks. Raise CommandError."""
    rewriter = _whom(options)
    slug = options["name"] or f"{taskset.slug}-rewritten"
    if not 1 <= options["per_task"] <= MAX_PER_TASK:
        raise CommandError(f"--per-task: must be from 1 to {MAX_PER_TASK}")
    if options["limit"] is not None and options["limit"] < 1:
        raise CommandError("--limit: must be 1 or more")
    if taskset.project.tasksets.filter(slug=slug).exists():
        raise CommandError(f"--name: taskset {slug!r} already exists; choose another name")
    origin = named_origin(
        "--name",
        taskset.project,
        slug,
        f"{taskset.slug} in other words"[:200],
        f"{taskset.slug} rewritten by {rewriter.model}"[:200],
    )
    how = {
        "per_task": options["per_task"],
        "limit": options["limit"],
        "set_aside": options["set_aside"],
    }
    try:
        with show_progress_bar(
            f"rewriting {taskset.slug}", min(taskset.size, options["limit"] or taskset.size)
        ) as progress:
            rewritten, refused = rewrite(taskset, origin, rewriter, progress=progress, **how)
    except Unanswered as why:
        raise CommandError(
            f"{why}\nreplies so far are kept: run the command again to continue, or use "
            "--set-aside to skip these tasks"
        ) from None
    except IntegrityError:
        raise CommandError(
            f"--name: taskset {slug!r} already exists; choose another name"
        ) from None
    except ValueError as why:
        raise CommandError(f"no rewrite is left: {why}") from None
    return rewritten, [f"{count:,} refused: {why}" for why, count in refused.most_common()]


def _whom(options: dict) -> JudgeOptions:
    names = ("address", "model", "temperature", "max_tokens", "timeout_s")
    try:
        return JudgeOptions(**{name: options[name] for name in names})
    except ValidationError as bad:
        first = bad.errors()[0]
        raise CommandError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None
