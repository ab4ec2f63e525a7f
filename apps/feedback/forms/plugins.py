"""Rating forms of plugins: checked before they are used, and guarded while they are."""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import structlog
from django.template import Context, Template, TemplateSyntaxError
from django.utils.safestring import SafeString, mark_safe
from pydantic import ValidationError

from apps.feedback.forms.form import (
    SCRIPT,
    Answer,
    BadAnswer,
    Form,
    FormOptions,
    Question,
    form_in,
)
from apps.plugins.contract import problems_of_head, problems_of_options
from apps.plugins.guarded_calls import plugin_errors
from apps.plugins.kinds import Refused
from apps.runs.people import MAX_FORM_NAME_LENGTH, People

log = structlog.get_logger(__name__)
MISSING = '<p class="field-error">This rating form is not installed. Skip the item.</p>'


FAILED = '<p class="field-error">This rating form cannot be shown. Skip the item.</p>'


class GuardedTemplate(Template):
    """A plugin's item.html; an error while it is drawn costs only its own place on the page.

    A run may have options that a newer version of the plugin refuses.
    """

    def __init__(self, inner: Template, form: str) -> None:
        super().__init__(inner.source, origin=inner.origin, name=inner.name, engine=inner.engine)
        self.form = form

    def render(self, context: Context) -> SafeString:
        try:
            with plugin_errors():
                return super().render(context)
        except Exception as error:  # others' code: the item alone cannot be shown
            log.warning("rating_form_failed", form=self.form, error=f"{error}")
            return mark_safe(FAILED)


class PluginForm(Form):
    """A plugin's form under its name in this installation; an error costs only one answer."""

    min_rollouts = max_rollouts = 1

    def __init__(self, name: str, inner: Form, module: ModuleType) -> None:
        self.name = name
        self.inner = inner
        self.fields = inner.fields
        self.asks = inner.asks
        self.summary = inner.summary or (module.__doc__ or "").strip().splitlines()[0]
        self.options = getattr(module, "Options", FormOptions)
        self.version = getattr(module, "VERSION", 1)
        self.template = GuardedTemplate(inner.template, name)
        self.script = inner.script
        inner.options = self.options

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        try:
            with plugin_errors():
                return self.inner.read(raw, question, problems)
        except BadAnswer:
            raise
        except ValidationError as bad:
            problems["form"] = f"the run's options do not fit {self.name}: {bad.errors()[0]['msg']}"
        except Exception as error:  # others' code: this answer alone is refused
            problems["form"] = f"{self.name} failed: {type(error).__name__}: {error}"
        return {}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        try:
            with plugin_errors():
                values = self.inner.values(answer, shown, people)
            if problem := next(_problems_of_values(values, shown), ""):
                raise ValueError(problem)
        except Exception as error:  # others' code: this answer alone has no value
            log.warning("rating_form_failed", form=self.name, error=f"{error}")
            return {}
        return values

    def in_words(self, answer: Answer) -> str:
        try:
            with plugin_errors():
                return str(self.inner.in_words(answer))
        except Exception:  # an answer of an older version, say
            return super().in_words(answer)

    def choices(self, people: People) -> Sequence[Any]:
        try:
            with plugin_errors():
                return self.inner.choices(people)
        except Exception as error:  # others' code: the item shows nothing to choose from
            log.warning("rating_form_failed", form=self.name, error=f"{error}")
            return ()

    def answer_worth(self, value: float, people: People) -> Answer | None:
        try:
            with plugin_errors():
                return self.parse(self.inner.answer_worth(value, people), [1], people)
        except Exception:  # nothing, what a browser could not send either, or others' code
            return None


def _problems_of_values(values: object, shown: Sequence[int]) -> Iterator[str]:
    if not isinstance(values, dict) or not values.keys() <= set(shown):
        yield "values() must return a value for rollouts shown, by their ids"
        return
    for value in values.values():
        if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= 1:
            yield f"values() returned {value!r}: it must be a number from 0 to 1"


class MissingForm(Form):
    """A form that is not installed (any more): it refuses answers, and gives no values."""

    fields = frozenset()
    max_rollouts = 64
    asks = "This rating form is missing"

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.summary = "not installed"
        self.template = Template(MISSING)
        self.script = "export { createForm } from '/static/js/rate/missing_form.js';\n"
        self._why = why

    def parse(self, *_: object, **__: object) -> Answer:
        raise BadAnswer({"form": self._why})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        problems["form"] = self._why
        return {}


def read_plugin(module: ModuleType, name: str) -> Form:
    """Return the rating form of a plugin's module. Raises Refused."""
    problems = [*problems_of_head(module), *problems_of_options(module, FormOptions)]
    if len(name) > MAX_FORM_NAME_LENGTH:
        problems.append(f"its name is longer than {MAX_FORM_NAME_LENGTH} characters")
    try:
        inner = form_in(module)()
    except ValueError:
        raise Refused("; ".join([*problems, "must define one subclass of Form"])) from None
    inner.name = name
    problems += _problems_of_form(inner)
    if problems:
        raise Refused("; ".join(problems))
    return PluginForm(name, inner, module)


def _problems_of_form(form: Form) -> Iterator[str]:
    if not form.asks.strip():
        yield "asks is empty: it is the question to the rater"
    if not isinstance(getattr(form, "fields", None), frozenset) or not form.fields:
        yield "fields must be a frozenset of the names that an answer has"
    if (form.min_rollouts, form.max_rollouts) != (1, 1):
        yield "min_rollouts and max_rollouts must be 1: forms of plugins judge one reply"
    try:
        if not isinstance(form.template, Template):
            yield "template must not be set: write item.html"
        if "export function createForm(" not in form.script:
            yield f"{SCRIPT} does not export a function createForm(article, page)"
    except OSError as error:
        yield f"{error.filename} cannot be read: {error.strerror}"
    except TemplateSyntaxError as error:
        yield f"item.html is not a template: {error}"
