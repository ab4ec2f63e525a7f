"""Tasksets: import, export, compare, generate from a seed, check for easy guesses, list."""

import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.feedback.suspicions.guesses import (
    INSTRUCTION,
    GuessCheck,
    list_correctness_scorers,
    why_not_guessable,
    without_guessed,
)
from apps.policies.models import Policy
from apps.rewards.code.making import Thresholds
from apps.rewards.code.testing import with_tests
from apps.rewards.hacking.guessing import TRIES
from apps.rewards.sandbox import NoSandbox
from apps.runs.models import Run
from apps.tasksets import generators
from apps.tasksets.importing import generate
from apps.tasksets.joining import join
from apps.tasksets.models import Taskset
from apps.tasksets.pages import NoRenderer
from apps.tasksets.scales import begin_scale, finish_scale
from rftweb.management.console import project_named, run_named, show_progress_bar
from rftweb.management.taskset_files import (
    add_export,
    add_import,
    add_overlap,
    export_to_file,
    imported,
    overlapped,
    preview_lines,
)
from rftweb.management.taskset_harder import add_harder, create_harder_taskset
from rftweb.management.taskset_origin import named_origin
from rftweb.management.taskset_rewrite import add_rewrite, create_rewritten_taskset

MAX_TRIES = 1_000
MAX_NAME_LENGTH = 60  # characters of a scale's name
THRESHOLDS = {
    "agree": "submissions that must give the same output for a case",
    "admit": "submissions that must pass all kept cases",
    "max_inputs": "maximum number of cases generated for a task",
    "min_cases": "minimum number of cases for a task",
}


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        add_verbs = (
            add_import,
            add_export,
            add_overlap,
            add_harder,
            add_rewrite,
            _add_generate,
            _add_tests,
            _add_join,
            _add_guesses,
            _add_difficulty,
            _add_list,
        )
        for add in add_verbs:
            add(verbs).add_argument(
                "--project", help="slug of the project; optional if there is only one"
            )

    def handle(self, **options: Any) -> None:
        verbs = {
            "import": self._import,
            "generate": self._generate,
            "tests": self._tests,
            "join": self._join,
            "guesses": self._guesses,
            "difficulty": self._difficulty,
            "harder": self._harder,
            "rewrite": self._rewrite,
            "export": self._export,
            "overlap": self._overlap,
            "list": self._list,
        }
        verbs[options["verb"]](options)

    def _import(self, options: dict) -> None:
        if options["preview"]:
            self.stdout.write("\n".join(preview_lines(options)))
            return
        taskset, read_as = imported(project_named(options["project"]), options)
        self._say_stored(taskset)
        self.stdout.write("\n".join(read_as))

    def _export(self, options: dict) -> None:
        taskset = _find_taskset(project_named(options["project"]), options["slug"])
        self.stdout.write(
            self.style.SUCCESS(
                export_to_file(taskset, options["file"], options["force"], options["redact"])
            )
        )

    def _overlap(self, options: dict) -> None:
        project = project_named(options["project"])
        for line in overlapped(
            _find_taskset(project, options["checked"]),
            _find_taskset(project, options["other"]),
            options,
        ):
            self._write(line)

    def _harder(self, options: dict) -> None:
        project = project_named(options["project"])
        harder, notes = create_harder_taskset(_find_taskset(project, options["slug"]), options)
        self._say_stored(harder)
        for line in notes:
            self._write(line)

    def _rewrite(self, options: dict) -> None:
        rewritten, refused = create_rewritten_taskset(
            _find_taskset(project_named(options["project"]), options["slug"]), options
        )
        self._say_stored(rewritten)
        for line in refused:
            self._write(line)

    def _generate(self, options: dict) -> None:
        project = project_named(options["project"])
        slug = options["slug"] or options["generator"]
        size = options["size"]
        named_origin("--slug", project, slug, slug, slug)
        try:
            with show_progress_bar(f"generating {options['generator']}", size) as progress:
                taskset = generate(
                    project, slug, options["generator"], size, options["seed"], progress=progress
                )
        except IntegrityError:
            raise CommandError(
                f"--slug: taskset {slug!r} already exists; choose another name"
            ) from None
        except LookupError as missing:
            raise CommandError(str(missing)) from None
        except ValueError as error:
            raise CommandError(f"--size: {error}") from None
        except NoRenderer as missing:
            raise CommandError(str(missing)) from None
        self._say_stored(taskset)

    def _tests(self, options: dict) -> None:
        project = project_named(options["project"])
        slug = options["name"] or f"{options['slug']}-tested"
        taskset = _find_taskset(project, options["slug"])
        origin = named_origin("--name", project, slug, slug, f"tests made for {taskset.slug}")
        try:
            thresholds = Thresholds(**{name: options[name] for name in THRESHOLDS})
            with show_progress_bar(f"testing {taskset.slug}", taskset.size) as progress:
                tested = with_tests(
                    taskset,
                    origin,
                    thresholds,
                    progress,
                    self._write,
                )
        except IntegrityError:
            raise CommandError(
                f"--name: taskset {slug!r} already exists; choose another name"
            ) from None
        except (NoSandbox, ValueError) as error:
            raise CommandError(str(error)) from None
        self._say_stored(tested)

    def _join(self, options: dict) -> None:
        project = project_named(options["project"])
        slug = options["slug"]
        parts = [_find_taskset(project, part) for part in options["parts"]]
        source = f"joined of {', '.join(part.slug for part in parts)}"
        origin = named_origin("the new name", project, slug, slug, source[:200])
        try:
            with show_progress_bar(f"joining {slug}", sum(part.size for part in parts)) as progress:
                self._say_stored(join(origin, parts, progress))
        except IntegrityError:
            raise CommandError(f"taskset {slug!r} already exists; choose another name") from None
        except ValueError as error:
            raise CommandError(str(error)) from None

    def _guesses(self, options: dict) -> None:
        project = project_named(options["project"])
        taskset, run, policy = _find_guesser(project, options)
        if options["name"]:  # before the tries, which take long
            named_origin("--name", project, options["name"], options["name"], "")
        if not 1 <= options["tries"] <= MAX_TRIES:
            raise CommandError(f"--tries: must be from 1 to {MAX_TRIES}")
        if _guess(taskset, policy, run, options):
            raise CommandError("the check was interrupted; run the command again to continue")
        if options["name"]:
            origin = named_origin(
                "--name",
                project,
                options["name"],
                options["name"],
                f"{taskset.slug} without what {policy.slug} guessed",
            )
            try:
                self._say_stored(without_guessed(taskset, policy, origin))
            except IntegrityError:
                raise CommandError(
                    f"--name: taskset {options['name']!r} already exists; choose another name"
                ) from None
            except ValueError as error:
                raise CommandError(f"--name: {error}") from None

    def _difficulty(self, options: dict) -> None:
        taskset, run, policy = _find_guesser(project_named(options["project"]), options)
        _require_bounds(options)
        judges = run.slug if run else ", ".join(options["scorer"])
        source = (
            f"{options['samples']} tries of {policy.slug} at temperature "
            f"{options['temperature']:g}, judged by {judges}"
        )
        try:
            scale = begin_scale(taskset, options["name"], source[:200])
        except ValueError as error:
            raise CommandError(f"--name: {error}") from None
        arguments = [
            "--scale",
            scale.pk,
            "--tries",
            options["samples"],
            "--temperature",
            options["temperature"],
        ]
        arguments += ["--instruction", "", "--max_tokens", options["max_tokens"]]
        if _in_worker(taskset, policy, run, options, arguments):
            raise CommandError("the estimate was interrupted; run the command again to continue")
        if missing := finish_scale(scale, options["otherwise"]):
            self.stdout.write(
                f"scale {scale.name}: {missing:,} of {taskset.size:,} tasks have no number yet"
            )
            self.stdout.write(
                "run the command again to continue; --otherwise 0.5 sets the number of tasks that "
                "cannot be scored"
            )
        else:
            self.stdout.write(
                self.style.SUCCESS(
                    f"scale {scale.name}: {taskset.size:,} tasks;"
                    f" selection: {{scale: {scale.name}}}"
                )
            )

    def _write(self, line: str) -> None:
        self.stdout.write(line)

    def _list(self, options: dict) -> None:
        tasksets = Taskset.objects.select_related("project", "first").order_by("-pk")
        if options["project"]:
            tasksets = tasksets.filter(project=project_named(options["project"]))
        for taskset in tasksets:
            suffix = f"   version {taskset.version} of {taskset.first}" if taskset.first else ""
            self.stdout.write(
                f"{taskset.project.slug:15} {taskset.slug:25} {taskset.size:>8} tasks  "
                f" {taskset.source}{suffix}"
            )

    def _say_stored(self, taskset: Taskset) -> None:
        aside = f", {taskset.quarantined} lines set aside" if taskset.quarantined else ""
        aside += f", {taskset.duplicates} duplicates left out" if taskset.duplicates else ""
        aside += f", {taskset.left_out} left out by operators" if taskset.left_out else ""
        if taskset.first:
            aside += (
                f"; version {taskset.version} of {taskset.first}: {taskset.added} added, "
                f"{taskset.removed} removed"
            )
        self.stdout.write(
            self.style.SUCCESS(f"taskset {taskset.slug}: {taskset.size} tasks{aside}")
        )


def _find_taskset(project: Project, slug: str) -> Taskset:
    taskset = Taskset.objects.filter(project=project, slug=slug).first()
    if taskset is None:
        raise CommandError(f"no taskset {slug!r} in {project.slug}")
    return taskset


def _require_judges(run: Run | None, scorer_names: list[str]) -> None:
    """Raise CommandError if no scorer could tell whether a guess is right."""
    for scorer in scorer_names:
        if reason := why_not_guessable(scorer):
            raise CommandError(
                f"--scorer: {scorer} cannot tell whether a guess is correct: {reason}"
            )
    if run and not list_correctness_scorers(run.settings):
        raise CommandError(
            f"--run: no scorer of {run.slug} can tell what is correct; name one with --scorer"
        )


def _find_guesser(project: Project, options: dict) -> tuple[Taskset, Run | None, Policy]:
    """Return the taskset, the run whose scorers judge, and the policy that tries.

    Raises CommandError if one is missing.
    """
    taskset = _find_taskset(project, options["slug"])
    run = run_named(options["run"], project.slug) if options["run"] else None
    policy = (
        project.policies.filter(slug=options["policy"]).first()
        if options["policy"]
        else run.policy
        if run
        else None
    )
    if policy is None:
        raise CommandError(
            f"--policy: no policy {options['policy']!r}"
            if options["policy"]
            else "--policy: a policy is required"
        )
    _require_judges(run, options["scorer"] or [])
    return taskset, run, policy


def _require_bounds(options: dict) -> None:
    if not 1 <= options["samples"] <= MAX_TRIES:
        raise CommandError(f"--samples: must be from 1 to {MAX_TRIES}")
    if not 0 < options["temperature"] <= 5:
        raise CommandError("--temperature: must be above 0, up to 5")
    if options["max_tokens"] < 1:
        raise CommandError("--max-tokens: must be 1 or more")
    if options["otherwise"] is not None and not 0 <= options["otherwise"] <= 1:
        raise CommandError("--otherwise: must be from 0 to 1")
    if not 1 <= len(options["name"]) <= MAX_NAME_LENGTH:
        raise CommandError(f"--name: must have 1 to {MAX_NAME_LENGTH} characters")


def _guess(taskset: Taskset, policy: Policy, run: Run | None, options: dict) -> int:
    arguments = [
        "--tries",
        options["tries"],
        "--max_tokens",
        options["max_tokens"],
        "--instruction",
        options["instruction"],
    ]
    return _in_worker(
        taskset, policy, run, options, [*arguments, *(["--force"] if options["force"] else [])]
    )


def _in_worker(
    taskset: Taskset, policy: Policy, run: Run | None, options: dict, arguments: list
) -> int:
    """Try the tasks in a separate worker process; return its exit code.

    Models are loaded only in such processes.
    """
    arguments = [*arguments, "--engine", options["engine"]]
    if run:
        arguments += ["--run", run.pk]
    else:
        for scorer in options["scorer"]:
            arguments += ["--scorer", scorer]
    if options["limit"]:
        arguments += ["--limit", options["limit"]]
    command = [sys.executable, "-m", "workers.guessing", taskset.pk, policy.pk, *arguments]
    return subprocess.run(list(map(str, command)), cwd=settings.BASE_DIR, check=False).returncode


def _add_generate(verbs: _SubParsersAction) -> ArgumentParser:
    generating = verbs.add_parser("generate", help="create a taskset from a seed")
    generating.add_argument("generator", help=f"one of {', '.join(generators.generator_names())}")
    generating.add_argument("--size", type=int, default=500)
    generating.add_argument("--seed", type=int, default=0)
    generating.add_argument("--slug", help="name of the taskset (default: the generator's)")
    return generating


def _add_tests(verbs: _SubParsersAction) -> ArgumentParser:
    testing = verbs.add_parser(
        "tests",
        help="create a taskset whose tasks get tests from their generators and submissions",
    )
    testing.add_argument(
        "slug",
        help=("of the taskset: tasks without tests need generators and submissions in their meta"),
    )
    testing.add_argument(
        "--name", help="name of the new taskset (default: the old one's with -tested)"
    )
    for name, text in THRESHOLDS.items():
        testing.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=getattr(Thresholds(), name), help=text
        )
    return testing


def _add_join(verbs: _SubParsersAction) -> ArgumentParser:
    joining = verbs.add_parser(
        "join",
        help="create a taskset from the tasks of several, for a run over several domains",
    )
    joining.add_argument("slug", help="of the new taskset")
    joining.add_argument("parts", nargs="+", help="slugs of the tasksets to join")
    return joining


def _add_guesses(verbs: _SubParsersAction) -> ArgumentParser:
    guessing = verbs.add_parser(
        "guesses",
        help=(
            "find tasks that a policy guesses correctly without reasoning, because they reward luck"
        ),
    )
    guessing.add_argument("slug", help="of the taskset")
    judging = guessing.add_mutually_exclusive_group(required=True)
    judging.add_argument("--run", help="a run on the set: its policy guesses and its scorers score")
    judging.add_argument(
        "--scorer", action="append", help="scorer to use, with its default options"
    )
    guessing.add_argument("--policy", help="the policy that guesses (default: the run's)")
    guessing.add_argument("--tries", type=int, default=TRIES, help="guesses per task")
    guessing.add_argument(
        "--max-tokens",
        type=int,
        default=GuessCheck.max_tokens,
        help="maximum length of a guess, in tokens",
    )
    guessing.add_argument(
        "--instruction", default=INSTRUCTION, help="appended to each prompt; may be empty"
    )
    guessing.add_argument("--engine", choices=["auto", "vllm", "transformers"], default="auto")
    guessing.add_argument(
        "--limit",
        type=int,
        help="number of tasks to check now; tasks that were checked before are skipped",
    )
    guessing.add_argument("--force", action="store_true", help="check all tasks again")
    guessing.add_argument(
        "--name", help="create a taskset of this name without the tasks that were guessed"
    )
    return guessing


def _add_difficulty(verbs: _SubParsersAction) -> ArgumentParser:
    estimating = verbs.add_parser(
        "difficulty",
        help=(
            "estimate how hard tasks are for a policy: a scale that runs can use to sample tasks"
        ),
    )
    estimating.add_argument("slug", help="of the taskset")
    judging = estimating.add_mutually_exclusive_group(required=True)
    judging.add_argument("--run", help="a run on the set: its policy tries and its scorers score")
    judging.add_argument(
        "--scorer", action="append", help="scorer to use, with its default options"
    )
    estimating.add_argument("--policy", help="the policy that tries (default: the run's)")
    estimating.add_argument(
        "--samples", type=int, default=10, help="tries per task (Kimi k1.5: ten)"
    )
    estimating.add_argument(
        "--temperature",
        type=float,
        default=1.2,
        help="softmax temperature; high, so that tries differ",
    )
    estimating.add_argument(
        "--max-tokens", type=int, default=1024, help="maximum length of a try, in tokens"
    )
    estimating.add_argument(
        "--name", default="difficulty", help="name of the scale, for `selection: {scale: NAME}`"
    )
    estimating.add_argument("--engine", choices=["auto", "vllm", "transformers"], default="auto")
    estimating.add_argument(
        "--limit",
        type=int,
        help="number of tasks to try now; tasks that were tried before are skipped",
    )
    estimating.add_argument(
        "--otherwise",
        type=float,
        help="difficulty, from 0 to 1, of tasks that cannot be scored",
    )
    return estimating


def _add_list(verbs: _SubParsersAction) -> ArgumentParser:
    return verbs.add_parser("list", help="list tasksets")
