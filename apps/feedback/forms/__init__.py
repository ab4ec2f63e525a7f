"""Rating forms: each parses a person's answer (`parse`) and values the rollouts (`values`).

Pure: no rows, no requests. A form is a folder with form.py, item.html and form.js; ours are the
folders of this package, others' are plugins (apps.plugins). `FORMS` has them by name.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from apps.feedback.forms.critique.form import critique_of
from apps.feedback.forms.form import Answer, BadAnswer, Form, FormOptions, form_in
from apps.feedback.forms.plugins import MissingForm, read_plugin
from apps.plugins.kinds import RATING_FORM, Kind
from apps.plugins.registry import REGISTRY

__all__ = ["BUILT_IN", "FORMS", "Answer", "BadAnswer", "Form", "FormOptions", "critique_of"]

BUILT_IN = (
    "thumbs",
    "stars",
    "pairwise",
    "ranking",
    "best_worst",
    "rubric",
    "turns",
    "spans",
    "critique",
    "rewrite",
    "flag",
)


def _load(name: str) -> Form:
    return form_in(importlib.import_module(f"{__name__}.{name}.form"))()


@cache
def built_in() -> Mapping[str, Callable[[], Form]]:
    """Return the forms of this package by name, each with what loads it."""
    return {name: partial(_load, name) for name in BUILT_IN}


class Forms(Mapping[str, Form]):
    """All forms that can be used, by name: built-in ones, then plugins.

    For any other name, `FORMS[name]` is a form that refuses every answer with the reason, so that
    ratings stay readable after a plugin is removed.
    """

    def __getitem__(self, name: str) -> Form:
        try:
            return REGISTRY.find(RATING_FORM, name)
        except LookupError as why:
            return MissingForm(name, str(why))

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in REGISTRY.names(RATING_FORM)

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from (name for name in REGISTRY.names(RATING_FORM) if name not in BUILT_IN)

    def __len__(self) -> int:
        return len(REGISTRY.names(RATING_FORM))


FORMS = Forms()

REGISTRY.register(
    Kind(
        name=RATING_FORM,
        group="rftweb.rating_forms",
        functions=(),
        built_in=built_in,
        read=read_plugin,
        version=lambda form: form.version,
        file="form.py",
    )
)
