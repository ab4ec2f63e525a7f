"""Tasks in other words at a terminal: whom is asked, and the set that is made of what it says."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Sequence

from django.core.management.base import CommandError
from django.db import IntegrityError
from pydantic import ValidationError

from apps.rewards.judging.asking import JudgeOptions
from apps.tasksets.models import Taskset
from apps.tasksets.storing import Origin
from rftweb.management.console import bar
from workers.rewriting import Unanswered, rewrite

MOST_EACH = 32


def add_rewrite(verbs: _SubParsersAction) -> ArgumentParser:
    rewriting = verbs.add_parser("rewrite", help="a new set of the tasks in other words, with the answers that they had")
    rewriting.add_argument("slug", help="of the taskset")
    rewriting.add_argument("--address", required=True, help="of an OpenAI-compatible service, up to and with its /v1")
    rewriting.add_argument("--model", required=True, help="the service's name for the model that says them")
    rewriting.add_argument("--each", type=int, default=1, help="rewrites of each task")
    rewriting.add_argument("--temperature", type=float, default=0.7, help="of its words")
    rewriting.add_argument("--max-tokens", type=int, default=1024, help="longest reply, its reasoning included")
    rewriting.add_argument("--timeout-s", type=float, default=60.0, help="for one reply; then it is asked again, twice at most")
    rewriting.add_argument("--most", type=int, help="only so many tasks, the first ones")
    rewriting.add_argument("--set-aside", action="store_true", help="list tasks that got no reply, instead of storing nothing")
    rewriting.add_argument("--to", help="name of the new taskset (default: the old one's with -rewritten)")
    return rewriting


def rewrite_of(taskset: Taskset, options: dict) -> tuple[Taskset, Sequence[str]]:
    """The new set, and lines that tell what was refused. Raises CommandError."""
    asked, slug = _whom(options), options["to"] or f"{taskset.slug}-rewritten"
    if not 1 <= options["each"] <= MOST_EACH:
        raise CommandError(f"--each: must be from 1 to {MOST_EACH}")
    if options["most"] is not None and options["most"] < 1:
        raise CommandError("--most: must be 1 or more")
    if taskset.project.tasksets.filter(slug=slug).exists():
        raise CommandError(f"--to: a taskset {slug!r} is there already; choose another")
    origin = Origin(taskset.project, slug, f"{taskset.slug} in other words"[:200], f"{taskset.slug} said by {asked.model}"[:200])
    how = {"each": options["each"], "most": options["most"], "set_aside": options["set_aside"]}
    try:
        with bar(f"rewriting {taskset.slug}", min(taskset.size, options["most"] or taskset.size)) as progress:
            made, refused = rewrite(taskset, origin, asked, progress=progress, **how)
    except Unanswered as why:
        raise CommandError(f"{why}\nwhat was said is kept, and the same command goes on; --set-aside does without those") from None
    except IntegrityError:
        raise CommandError(f"--to: a taskset {slug!r} is there already; choose another") from None
    except ValueError as why:
        raise CommandError(f"no rewrite is left: {why}") from None
    return made, [f"{count:,} refused: {why}" for why, count in refused.most_common()]


def _whom(options: dict) -> JudgeOptions:
    names = ("address", "model", "temperature", "max_tokens", "timeout_s")
    try:
        return JudgeOptions(**{name: options[name] for name in names})
    except ValidationError as bad:
        first = bad.errors()[0]
        raise CommandError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None
