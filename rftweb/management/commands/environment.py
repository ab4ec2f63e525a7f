"""Environments that rftweb calls: add, list, check."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from apps.environments.models import Environment
from apps.environments.pull.errors import CallFailed
from apps.environments.pull.registering import check_service, register_service
from rftweb.management.console import project_named

Kind = Environment.Kind
KINDS = [Kind.HTTP.value, Kind.OPENENV.value, Kind.GYMNASIUM.value, Kind.VERIFIERS.value]
# Options of `add` that are fields of the model; omitted ones keep the model's defaults.
FIELDS = (
    "title",
    "reward_low",
    "reward_high",
    "turn_limit",
    "turn_s",
    "person_s",
    "episode_s",
    "reward_s",
    "parallel",
    "options",
)


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        adding = verbs.add_parser("add", help="add an environment, and check that it responds")
        adding.add_argument("name", help="name for runs: lowercase letters, digits, - and _")
        adding.add_argument("--kind", choices=KINDS, required=True)
        adding.add_argument(
            "--address",
            required=True,
            help="http://… or ws://…; for Gymnasium and verifiers, the name",
        )
        adding.add_argument("--title")
        adding.add_argument("--reward-low", type=float, help="minimum reward of one action")
        adding.add_argument("--reward-high", type=float, help="maximum reward of one action")
        adding.add_argument(
            "--turn-limit", type=int, help="maximum number of actions in an episode"
        )
        adding.add_argument(
            "--turn-s",
            type=float,
            help="time limit for one response, in seconds; allow minutes where people respond",
        )
        adding.add_argument(
            "--episode-s", type=float, help="time limit for one episode, in seconds"
        )
        adding.add_argument(
            "--person-s",
            type=float,
            help="time limit for one response of a person who plays on its page, in seconds",
        )
        adding.add_argument(
            "--reward-s",
            type=float,
            help="how long after the end of an episode its rewards may arrive, in seconds",
        )
        adding.add_argument("--parallel", type=int, help="maximum number of episodes at a time")
        adding.add_argument(
            "--options",
            type=json.loads,
            help="JSON object that the environment gets at every reset",
        )
        checking = verbs.add_parser("check", help="start an episode and show its first observation")
        checking.add_argument("name")
        listing = verbs.add_parser("list", help="list environments")
        for verb in (adding, checking, listing):
            verb.add_argument(
                "--project", help="slug of the project; optional if there is only one"
            )

    def handle(self, **options: Any) -> None:
        {"add": self._add, "check": self._check, "list": self._list}[options["verb"]](options)

    def _add(self, options: dict) -> None:
        fields = {name: options[name] for name in FIELDS if options[name] is not None}
        try:
            environment = register_service(
                project_named(options["project"]),
                options["name"],
                options["kind"],
                options["address"],
                **fields,
            )
        except ValidationError as refusal:
            raise CommandError(_listed(refusal)) from None
        self.stdout.write(
            self.style.SUCCESS(
                f"environment {environment.name}: {environment.kind} at {environment.address}"
            )
        )
        self._say_checked(environment, "it was added, but ")

    def _check(self, options: dict) -> None:
        name = options["name"]
        environment = project_named(options["project"]).environments.filter(name=name).first()
        if environment is None:
            raise CommandError(f"name: no environment {name!r}; see `manage.py environment list`")
        self._say_checked(environment, "")

    def _list(self, options: dict) -> None:
        environments = Environment.objects.select_related("project").order_by(
            "project__slug", "name"
        )
        if options["project"]:
            environments = environments.filter(project=project_named(options["project"]))
        for row in environments:
            self.stdout.write(
                f"{row.project.slug:15} {row.name:25} {row.kind:10} {row.address or '-'}  "
                f" {row.open_reason}".rstrip()
            )

    def _say_checked(self, environment: Environment, before: str) -> None:
        try:
            self.stdout.write(check_service(environment))
        except CallFailed as why:
            raise CommandError(f"{before}it does not respond: {why}") from None


def _listed(refusal: ValidationError) -> str:
    lines = [
        f"--{field.replace('_', '-')}: {problem}"
        for field, problems in refusal.message_dict.items()
        for problem in problems
    ]
    return "\n".join(line.replace("--name:", "name:").replace("--__all__: ", "") for line in lines)
