"""The operators that a run's pipeline may name: all of them, or one with its options."""

import json
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from apps.pipelines import operators
from apps.pipelines.operators.describing import options_of


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="explain this one, with every option")
        parser.add_argument("--json", action="store_true", help="print it for programs")

    def handle(self, *, name: str | None, **options: object) -> None:
        try:
            found = [operators.find(name)] if name else [operators.find(each) for each in operators.names()]
        except LookupError as missing:
            raise CommandError(str(missing)) from None
        if options["json"]:
            told = [_document(operator) for operator in found]
            self.stdout.write(json.dumps(told[0] if name else told, indent=2))
        elif name:
            self._explain(found[0])
        else:
            width, family = max(len(one.name) for one in found), max(len(one.family) for one in found)
            for operator in sorted(found, key=lambda operator: (operators.FAMILIES.index(operator.family), operator.name)):
                self.stdout.write(f"{operator.name.ljust(width)}  {operator.family:{family}}  {operator.summary}")

    def _explain(self, operator: operators.Operator) -> None:
        self.stdout.write(f"{operator.name} ({operator.family}): {operator.summary}")
        self.stdout.write(f"works on {', or '.join(operator.stages)}\n\noptions:")
        for option in options_of(operator):
            self.stdout.write(f"  {option.name}: {option.default}  {option.why}".rstrip())


def _document(operator: operators.Operator) -> dict:
    return {
        "name": operator.name, "summary": operator.summary, "family": operator.family, "stages": list(operator.stages),
        "options": operator.options.model_json_schema(),
    }  # fmt: skip
