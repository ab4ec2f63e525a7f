"""Operators that look at the tasks of a file before they are stored, as they are said at a terminal."""

import argparse
from pathlib import Path

from django.core.management.base import CommandError

from apps.accounts.models import Project
from apps.pipelines.checking import in_list, operators_of_import
from apps.pipelines.tasks import row_sieve
from apps.runs.config import ConfigError, loaded
from apps.tasksets.storing import WhyNot


class _Operator(argparse.Action):
    """One more operator, behind those before it."""

    def __call__(self, parser, namespace, name, option_string=None) -> None:
        namespace.operators = [*(namespace.operators or []), {"operator": name, "options": {}}]


class _Option(argparse.Action):
    """An option of the operator that was named last; its value is read as YAML."""

    def __call__(self, parser, namespace, said, option_string=None) -> None:
        name, equals, value = said.partition("=")
        if not equals or not namespace.operators:
            parser.error(f"--option {said}: say NAME=VALUE, behind the --operator that it is of")
        try:
            read = loaded(value)
        except ConfigError as error:
            parser.error(f"--option {said}: {error}")
        *before, last = namespace.operators
        namespace.operators = [*before, {**last, "options": {**last["options"], name: read}}]


def add_operators(importing: argparse.ArgumentParser) -> None:
    importing.add_argument(
        "--operator", dest="operators", action=_Operator, metavar="NAME", help="leaves out tasks; they are listed beside the set"
    )
    importing.add_argument("--option", action=_Option, metavar="NAME=VALUE", help="of the operator before it, as most=200")
    importing.add_argument("--operators-file", type=Path, metavar="FILE", help="a list of operators in YAML, as a run's pipeline")


def sieve_from(project: Project, options: dict) -> WhyNot | None:
    """What the operators that were named say of rows; None where none was. Raises CommandError."""
    try:
        text = options["operators_file"].read_text() if options["operators_file"] else ""
        pipeline = operators_of_import([*in_list(text), *(options["operators"] or [])], project)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise CommandError(f"operators: {error}") from None
    return row_sieve(pipeline, project) if pipeline else None
