"""Runs: create one from a YAML file, seed it; start, pause, resume, stop, show and follow it."""

import json
import time
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError, InterfaceError, OperationalError, connection
from django.db.models import QuerySet

from apps.dashboard.rollout_search import Filter
from apps.environments.choosing import require_known_environment
from apps.pipelines.checking import require_known as require_known_operators
from apps.pipelines.seeding import NotSeeded, seed
from apps.rewards.scoring import require_known_scorers
from apps.rollouts.models import Rollout
from apps.runs import config
from apps.runs.models import NotPossible, Run
from rftweb.management.console import bar, explained, project_named, run_named
from rftweb.management.run_report import describe, latest

POLL_S = 0.5
VERBS = {"start": "begin exploring and training", "pause": "hold", "resume": "go on", "stop": "end for good"}


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        creating = verbs.add_parser("create", help="create a run from a YAML file")
        creating.add_argument("file", type=Path)
        creating.add_argument("--slug", help="name of the run (default: the file's)")
        creating.add_argument("--title", default="")
        creating.add_argument("--start", action="store_true", help="start it at once")
        named = [creating, verbs.add_parser("list", help="show all runs, the newest first")]
        for verb, text in {**VERBS, "status": "show where it stands", "follow": "show its progress until it ends"}.items():
            steering = verbs.add_parser(verb, help=text)
            steering.add_argument("run", help="slug of the run")
            if verb == "status":
                steering.add_argument("--json", action="store_true")
            named.append(steering)
        seeding = verbs.add_parser("seed", help="before it is started, give it groups that another run has sampled")
        seeding.add_argument("run", help="slug of the run")
        seeding.add_argument("--from", dest="of", required=True, help="slug of the run that they are taken from")
        seeding.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE", help=", ".join(Filter.base_fields))
        seeding.add_argument("--most", type=int, help="at most so many groups, the newest; never more than are in time")
        seeding.add_argument("--dry-run", action="store_true", help="tell what would come, and write nothing")
        named.append(seeding)
        for verb in named:
            verb.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        verb = options["verb"]
        if verb in VERBS:
            self._steer(run_named(options["run"], options["project"]), verb)
        else:
            acts = {"create": self._create, "seed": self._seed, "list": self._list, "status": self._status, "follow": self._follow}
            acts[verb](options)

    def _create(self, options: dict) -> None:
        path: Path = options["file"]
        project, slug = project_named(options["project"]), options["slug"] or path.stem
        try:
            plan = config.from_yaml(path.read_text(encoding="utf-8"))
            require_known_scorers(plan, project)
            require_known_environment(plan, project)
            require_known_operators(plan, project)
            run = Run.create(project=project, slug=slug, title=options["title"] or slug, plan=plan)
        except config.ConfigError as error:
            raise explained(error) from None
        except IntegrityError:
            raise CommandError(f"--slug: a run {slug!r} is there already; choose another") from None
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: {error}") from None
        self.stdout.write(self.style.SUCCESS(f"run {run.slug}: {run.planned_steps} steps planned"))
        if options["start"]:
            self._steer(run, "start")

    def _steer(self, run: Run, verb: str) -> None:
        try:
            getattr(run, verb)()
        except NotPossible as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"run {run.slug} is {run.get_state_display()}")

    def _seed(self, options: dict) -> None:
        run, of, most = run_named(options["run"], options["project"]), run_named(options["of"], options["project"]), options["most"]
        if most is not None and most < 1:
            raise CommandError(f"--most: is {most}; it must be at least 1")
        try:
            found = seed(run, of, _asked(of, options["where"]), most, dry_run=options["dry_run"])
        except NotSeeded as why:
            raise CommandError(str(why)) from None
        come = f"would come: {found.taken:,} groups" if options["dry_run"] else f"{found.taken:,} groups came"
        self.stdout.write(self.style.SUCCESS(f"{run.slug}: {come}, of {found.fit:,} that fit and {found.matching:,} that match"))

    def _list(self, options: dict) -> None:
        runs = Run.objects.select_related("project")
        if options["project"]:
            runs = runs.filter(project=project_named(options["project"]))
        for run in runs:
            where = f"step {run.step} of {run.planned_steps}"
            self.stdout.write(f"{run.project.slug:15} {run.slug:25} {run.get_state_display():12} {where}")

    def _status(self, options: dict) -> None:
        facts = describe(run_named(options["run"], options["project"]))
        if options["json"]:
            self.stdout.write(json.dumps(facts))
            return
        for name, value in facts.items():
            self.stdout.write(f"{name.replace('_', ' '):18} {value}")

    def _follow(self, options: dict) -> None:
        run = run_named(options["run"], options["project"])
        shown, state = run.step, Run.State.RUNNING  # which needs no words: its steps tell
        with bar(run.slug, run.planned_steps) as at:
            while True:
                if run.step != shown:
                    self.stdout.write(f"step {run.step}/{run.planned_steps}  {latest(run)}")
                    shown = run.step
                at(run.step)
                if run.state != state:
                    self._say_state(run)
                    state = run.state
                if run.state in Run.ENDED:
                    break
                time.sleep(POLL_S)
                reread(run)

    def _say_state(self, run: Run) -> None:
        self.stdout.write(f"run {run.slug} is {run.get_state_display()}{f': {run.state_reason}' if run.state_reason else ''}")


def _asked(of: Run, where: list[str]) -> QuerySet[Rollout]:
    """The rollouts of the run that a search with these fields finds. Raises CommandError naming the field."""
    said = dict(part.partition("=")[::2] for part in where)
    form = Filter(said, is_open=True)
    if unknown := said.keys() - form.fields.keys():
        raise CommandError(f"--where: no field {', '.join(sorted(unknown))}; there are: {', '.join(form.fields)}")
    if not form.is_valid():
        field, problems = next(iter(form.errors.items()))
        raise CommandError(f"--where: {field}: {problems[0]}")
    return form.found(of, of.rollouts.without_anchors())


def reread(run: Run) -> None:
    """What the run is now; while the database is away, what it was last."""
    try:
        run.refresh_from_db()
    except (OperationalError, InterfaceError):
        connection.close()
