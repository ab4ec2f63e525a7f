"""Runs: list, show, compare, create from YAML, seed, start, pause, resume, stop and follow."""

import json
import re
import sys
import time
from argparse import ArgumentParser, _SubParsersAction
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError, InterfaceError, OperationalError, connection
from django.db.models import QuerySet

from apps.dashboard.config_diff import list_differing_fields
from apps.dashboard.rollout_search import Filter
from apps.dashboard.run_names import slug_problem
from apps.environments.environment_lookup import require_known_environment
from apps.pipelines.checking import require_known as require_known_operators
from apps.pipelines.seeding import NotSeeded, seed_run
from apps.rewards.scoring import require_known_scorers
from apps.rollouts.models import Rollout
from apps.runs import config, parsing
from apps.runs.models import NotPossible, Run
from rftweb.management.console import explained, project_named, run_named, show_progress_bar
from rftweb.management.run_report import describe_run, latest

POLL_S = 0.5
LISTED = 50
MAX_COUNT = 1_000_000  # of rows that a command lists or copies
RUN = "slug of the run, or PROJECT/RUN"
VERBS = {
    "start": "start sampling and training",
    "pause": "hold",
    "resume": "continue",
    "stop": "end the run permanently",
}


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        parsers = [_add_create(verbs), _add_list(verbs)]
        for verb, text in {
            **VERBS,
            "show": "show the state of a run",
            "follow": "show the progress of a run until it ends",
        }.items():
            steering = verbs.add_parser(verb, help=text)
            steering.add_argument("run", help=RUN)
            parsers.append(steering)
        comparing = verbs.add_parser("diff", help="show how the configurations of two runs differ")
        comparing.add_argument("run", help=RUN)
        comparing.add_argument("other", help=f"the other run: {RUN}")
        parsers.append(comparing)
        for parser_of_verb in parsers[1:]:
            parser_of_verb.add_argument(
                "--json", action="store_true", help="print JSON, one document per line"
            )
        parsers.append(_add_seed(verbs))
        for parser_of_verb in parsers:
            parser_of_verb.add_argument(
                "--project", help="slug of the project; optional if there is only one"
            )

    def handle(self, **options: Any) -> None:
        verb = options["verb"]
        if verb in VERBS:
            self._steer(run_named(options["run"], options["project"]), verb, options["json"])
        else:
            acts = {
                "create": self._create,
                "seed": self._seed,
                "list": self._list,
                "show": self._show,
                "follow": self._follow,
                "diff": self._diff,
            }
            acts[verb](options)

    def _create(self, options: dict) -> None:
        path: Path = options["file"]
        project = project_named(options["project"])
        slug = options["slug"] or re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:50]
        if not project.runs.filter(slug=slug).exists() and (why := slug_problem(project, slug)):
            raise CommandError(f"--slug: {slug!r}: {why}")
        try:
            plan = parsing.from_yaml(path.read_text(encoding="utf-8"))
            require_known_scorers(plan, project)
            require_known_environment(plan, project)
            require_known_operators(plan, project)
            run = Run.create(project=project, slug=slug, title=options["title"] or slug, plan=plan)
        except config.ConfigError as error:
            raise explained(error) from None
        except IntegrityError:
            raise CommandError(
                f"--slug: run {slug!r} already exists; choose another name"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: {error}") from None
        self.stdout.write(self.style.SUCCESS(f"run {run.slug}: {run.planned_steps} steps planned"))
        if options["start"]:
            self._steer(run, "start")

    def _steer(self, run: Run, verb: str, as_json: bool = False) -> None:
        try:
            getattr(run, verb)()
        except NotPossible as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            json.dumps(_row(run)) if as_json else f"run {run.slug} is {run.get_state_display()}"
        )

    def _seed(self, options: dict) -> None:
        run = run_named(options["run"], options["project"])
        of = run_named(options["of"], options["project"])
        limit = options["limit"]
        if limit is not None:
            _require_count(limit)
        try:
            seeded = seed_run(
                run, of, _matching_rollouts(of, options["where"]), limit, dry_run=options["dry_run"]
            )
        except NotSeeded as why:
            raise CommandError(str(why)) from None
        come = (
            f"would be copied: {seeded.taken:,} groups"
            if options["dry_run"]
            else f"{seeded.taken:,} groups copied"
        )
        self.stdout.write(
            self.style.SUCCESS(
                f"{run.slug}: {come}, of {seeded.fit:,} that fit and {seeded.matching:,} that match"
            )
        )

    def _list(self, options: dict) -> None:
        _require_count(options["limit"])
        runs = Run.objects.select_related("project", "policy").with_tasksets().defer("config")
        if options["project"]:
            runs = runs.filter(project=project_named(options["project"]))
        runs = runs.filter(state=options["state"]) if options["state"] else runs
        runs = runs.filter(tags__contains=[options["tag"]]) if options["tag"] else runs
        runs = runs if options["archived"] else runs.filter(archived_at__isnull=True)
        runs = runs if options["evaluations"] else runs.filter(is_evaluation=False)
        newest = list(runs[: options["limit"] + 1])
        for run in newest[: options["limit"]]:
            self.stdout.write(json.dumps(_row(run)) if options["json"] else _line(run))
        if len(newest) > options["limit"] and not options["json"]:
            self.stderr.write(
                f"the newest {options['limit']:,} are shown; use --limit, --state or --tag for"
                " others"
            )

    def _show(self, options: dict) -> None:
        facts = describe_run(run_named(options["run"], options["project"]))
        if options["json"]:
            self.stdout.write(json.dumps(facts))
            return
        for name, value in facts.items():
            self.stdout.write(f"{name.replace('_', ' '):18} {value}")

    def _diff(self, options: dict) -> None:
        first, second = (run_named(options[name], options["project"]) for name in ("run", "other"))
        differences = list_differing_fields([first.settings, second.settings])
        names = [
            run.slug if first.project_id == second.project_id else f"{run.project.slug}/{run.slug}"
            for run in (first, second)
        ]
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        difference.field: dict(zip(names, difference.values, strict=True))
                        for difference in differences
                    }
                )
            )
            return
        if not differences:
            self.stdout.write(f"{' and '.join(names)} have the same configuration")
            return
        cells = (
            (difference.field, *(" ".join(value.split()) for value in difference.values))
            for difference in differences
        )
        rows = [("field", *names), *cells]
        wide = [max(len(row[n]) for row in rows) for n in (0, 1)]
        for field, before, after in rows:
            self.stdout.write(f"{field:{wide[0]}}  {before:{wide[1]}}  {after}")

    def _follow(self, options: dict) -> None:
        run = run_named(options["run"], options["project"])
        as_json = options["json"]
        has_bar = sys.stderr.isatty() and not as_json
        shown_step = run.step
        state: str = Run.State.RUNNING  # a running state is not printed: its steps show it
        with (
            show_progress_bar(run.slug, run.planned_steps, run.step, has_rate=True)
            if has_bar
            else nullcontext()
        ) as at:
            while True:
                if run.step != shown_step:
                    shown_step = run.step
                    if at:
                        at(run.step, description=f"{run.slug}  {_brief(run)}")
                    else:
                        self._say_step(run, as_json)
                if run.state != state:
                    self._say_state(run, as_json)
                    state = run.state
                if run.state in Run.ENDED:
                    break
                time.sleep(POLL_S)
                reread(run)

    def _say_step(self, run: Run, as_json: bool) -> None:
        words = f"step {run.step}/{run.planned_steps}  {latest(run)}"
        self.stdout.write(json.dumps(_row(run)) if as_json else words)

    def _say_state(self, run: Run, as_json: bool) -> None:
        words = (
            f"run {run.slug} is"
            f" {run.get_state_display()}{f': {run.state_reason}' if run.state_reason else ''}"
        )
        self.stdout.write(json.dumps(_row(run)) if as_json else words)


def _row(run: Run) -> dict[str, object]:
    """Return a run for programs, without queries beyond its own row and names."""
    return {
        "run": run.slug,
        "project": run.project.slug,
        "title": run.title,
        "state": run.state,
        "reason": run.state_reason,
        "policy": run.policy.slug,
        "tasksets": run.share_of,
        "step": run.step,
        "planned_steps": run.planned_steps,
        "published_version": run.published_version,
        "reward": run.reward_now,
        "tags": run.tags,
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at and run.started_at.isoformat(),
    }


def _line(run: Run) -> str:
    where = f"step {run.step} of {run.planned_steps}"
    reward = "" if run.reward_now is None else f"reward {run.reward_now:.3f}"
    tags = " ".join(f"#{tag}" for tag in run.tags)
    return (
        f"{run.project.slug:15} {run.slug:25} {run.get_state_display():12} {where:20} {reward:13}"
        f" {tags}".rstrip()
    )


def _brief(run: Run) -> str:
    """Return the text beside the progress bar."""
    return (
        f"{'' if run.reward_now is None else f'reward {run.reward_now:.3f}, '}version"
        f" {run.published_version}"
    )


def _matching_rollouts(of: Run, where: list[str]) -> QuerySet[Rollout]:
    """Return the run's rollouts that match a search.

    Raises CommandError naming the wrong field.
    """
    filters = dict(part.partition("=")[::2] for part in where)
    form = Filter(filters, is_open=True)
    if unknown := filters.keys() - form.fields.keys():
        raise CommandError(
            f"--where: no field {', '.join(sorted(unknown))}; there are: {', '.join(form.fields)}"
        )
    if not form.is_valid():
        field, problems = next(iter(form.errors.items()))
        raise CommandError(f"--where: {field}: {problems[0]}")
    return form.matching(of, of.rollouts.without_anchors())


def reread(run: Run) -> None:
    """Reload the run; while the database is unavailable, keep its last state."""
    try:
        run.refresh_from_db()
    except (OperationalError, InterfaceError):
        connection.close()


def _add_create(verbs: _SubParsersAction) -> ArgumentParser:
    creating = verbs.add_parser("create", help="create a run from a YAML file")
    creating.add_argument("file", type=Path)
    creating.add_argument(
        "--slug", help="name of the run (default: the file's, with dashes for dots and blanks)"
    )
    creating.add_argument("--title", default="")
    creating.add_argument("--start", action="store_true", help="start the run immediately")
    return creating


def _require_count(count: int) -> None:
    if not 1 <= count <= MAX_COUNT:
        raise CommandError(f"--limit: is {count}; it must be from 1 to {MAX_COUNT}")


def _add_list(verbs: _SubParsersAction) -> ArgumentParser:
    listing = verbs.add_parser("list", help="list runs, the newest first")
    listing.add_argument("--state", choices=Run.State.values)
    listing.add_argument("--tag", help="only runs with this tag")
    listing.add_argument(
        "--limit", type=int, default=LISTED, help=f"maximum number of runs (default: {LISTED})"
    )
    listing.add_argument("--archived", action="store_true", help="include archived runs")
    listing.add_argument("--evaluations", action="store_true", help="include evaluations")
    return listing


def _add_seed(verbs: _SubParsersAction) -> ArgumentParser:
    seeding = verbs.add_parser(
        "seed", help="give a run groups that another run sampled, before it starts"
    )
    seeding.add_argument("run", help=RUN)
    seeding.add_argument(
        "--from", dest="of", required=True, help="slug of the run that sampled them"
    )
    seeding.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help=", ".join(Filter.base_fields),
    )
    seeding.add_argument(
        "--limit",
        type=int,
        help=(
            "maximum number of groups, the newest first; groups that are too stale are never used"
        ),
    )
    seeding.add_argument(
        "--dry-run",
        action="store_true",
        help="show which groups would be copied, without copying them",
    )
    return seeding
