"""List the operators that a run's pipeline may use, or show one with its options."""

import json
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from apps.pipelines import operators
from apps.pipelines.operators.describing import list_operator_options


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="show this operator with all options")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, name: str | None, **options: object) -> None:
        try:
            selected = (
                [operators.find_operator(name)]
                if name
                else [
                    operators.find_operator(operator_name)
                    for operator_name in operators.operator_names()
                ]
            )
        except LookupError as missing:
            raise CommandError(str(missing)) from None
        if options["json"]:
            documents = [_document(operator) for operator in selected]
            self.stdout.write(json.dumps(documents[0] if name else documents, indent=2))
        elif name:
            self._explain(selected[0])
        else:
            width = max(len(chosen.name) for chosen in selected)
            family = max(len(chosen.family) for chosen in selected)
            for operator in sorted(
                selected,
                key=lambda operator: (operators.FAMILIES.index(operator.family), operator.name),
            ):
                self.stdout.write(
                    f"{operator.name.ljust(width)}  {operator.family:{family}}  {operator.summary}"
                )

    def _explain(self, operator: operators.Operator) -> None:
        self.stdout.write(f"{operator.name} ({operator.family}): {operator.summary}")
        self.stdout.write(f"works on {', or '.join(operator.stages)}\n\noptions:")
        for option in list_operator_options(operator):
            self.stdout.write(f"  {option.name}: {option.default}  {option.why}".rstrip())


def _document(operator: operators.Operator) -> dict:
    return {
        "name": operator.name,
        "summary": operator.summary,
        "family": operator.family,
        "stages": list(operator.stages),
        "options": operator.options.model_json_schema(),
    }
