"""List the scorers that a run may use, or show one with its options."""

import json
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from apps.rewards import scorers


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="show this scorer with all options")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, name: str | None, **options: object) -> None:
        try:
            selected = (
                [scorers.find_scorer(name)]
                if name
                else [scorers.find_scorer(scorer_name) for scorer_name in scorers.scorer_names()]
            )
        except LookupError as missing:
            raise CommandError(str(missing)) from None
        if options["json"]:
            documents = [_document(scorer) for scorer in selected]
            self.stdout.write(json.dumps(documents[0] if name else documents, indent=2))
        elif name:
            self._explain(selected[0])
        else:
            width = max(len(scorer.name) for scorer in selected)
            for scorer in selected:
                self.stdout.write(
                    f"{scorer.name.ljust(width)}  {scorer.low:>4g} to {scorer.high:<4g} "
                    f" {scorer.summary}"
                )

    def _explain(self, scorer: scorers.Scorer) -> None:
        whom = "whole groups" if scorer.of_group else "single rollouts"
        self.stdout.write(f"{scorer.name}, version {scorer.version}: {scorer.summary}")
        self.stdout.write(
            f"from {scorer.low:g} to {scorer.high:g}; scores {whom} in at most {scorer.seconds:g} "
            "s\n\noptions:"
        )
        for name, field in scorer.options.model_fields.items():
            default = (
                "needed"
                if field.is_required()
                else json.dumps(field.get_default(call_default_factory=True), default=str)
            )
            self.stdout.write(f"  {name}: {default}  {field.description or ''}".rstrip())


def _document(scorer: scorers.Scorer) -> dict:
    return {
        "name": scorer.name,
        "summary": scorer.summary,
        "low": scorer.low,
        "high": scorer.high,
        "version": scorer.version,
        "seconds": scorer.seconds,
        "of_group": scorer.of_group,
        "options": scorer.options.model_json_schema(),
    }
