"""Operators on the command line that filter the tasks of a file before they are stored."""

import argparse
from pathlib import Path

from django.core.management.base import CommandError

from apps.accounts.models import Project
from apps.pipelines.checking import in_list, operators_of_import
from apps.pipelines.tasks import row_sieve
from apps.runs.config import ConfigError
from apps.runs.parsing import load_yaml
from apps.tasksets.storing import WhyNot


class _Operator(argparse.Action):
    """An argument that adds one more operator after those before it."""

    def __call__(self, parser, namespace, name, option_string=None) -> None:
        namespace.operators = [*(namespace.operators or []), {"operator": name, "options": {}}]


class _Option(argparse.Action):
    """An option of the operator that was named last; its value is parsed as YAML."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        name, equals, value = values.partition("=")
        if not equals or not namespace.operators:
            parser.error(
                f"--option {values}: use NAME=VALUE, after the --operator that it belongs to"
            )
        try:
            read = load_yaml(value)
        except ConfigError as error:
            parser.error(f"--option {values}: {error}")
        *before, last = namespace.operators
        namespace.operators = [*before, {**last, "options": {**last["options"], name: read}}]


def add_operators(importing: argparse.ArgumentParser) -> None:
    importing.add_argument(
        "--operator",
        dest="operators",
        action=_Operator,
        metavar="NAME",
        help="operator that leaves out tasks; they are listed with the set",
    )
    importing.add_argument(
        "--option",
        action=_Option,
        metavar="NAME=VALUE",
        help="option of the operator before it, such as max_length=200",
    )
    importing.add_argument(
        "--operators-file",
        type=Path,
        metavar="FILE",
        help="YAML list of operators, as in a run's pipeline",
    )


def sieve_from(project: Project, options: dict) -> WhyNot | None:
    """Return the filter of the named operators; None without any. Raise CommandError."""
    try:
        text = options["operators_file"].read_text() if options["operators_file"] else ""
        pipeline = operators_of_import([*in_list(text), *(options["operators"] or [])], project)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise CommandError(f"operators: {error}") from None
    return row_sieve(pipeline, project) if pipeline else None
