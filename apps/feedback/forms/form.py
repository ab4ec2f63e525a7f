"""Base of rating forms: strict parsing of an answer, and the value of each rollout."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from django.template import Engine, Template

from apps.plugins.contract import PluginOptions, validated
from apps.runs.people import People

Answer = dict[str, Any]
TEMPLATE = "item.html"
SCRIPT = "form.js"
MAX_SUMMARY_LENGTH = 80


class FormOptions(PluginOptions):
    """Base of the options of a rating form: a run's `people.form_options`."""


class BadAnswer(ValueError):
    """Raised for an invalid answer.

    `problems` says, for each field, what is wrong and what is right.
    """

    def __init__(self, problems: Mapping[str, str]):
        super().__init__("; ".join(f"{field}: {words}" for field, words in problems.items()))
        self.problems = dict(problems)


@dataclass(frozen=True)
class Question:
    """A question to a rater: the rollouts in the order shown, and the run's settings for people.

    Of a single rollout, it also has the text and the number of turns of the policy.
    """

    shown: Sequence[int]
    people: People
    text: str | None = None
    turns: int | None = None


class Form(ABC):
    """A rating form, which is pure: it knows numbers and texts, but no rows.

    It is defined in form.py of a folder, beside its template (item.html) and the script that drives
    it (form.js).
    """

    name: str  # a plugin's is that of its folder or entry point
    fields: frozenset[str]  # the fields that an answer may have
    asks: str = ""  # the question to the rater
    summary: str = ""  # what an answer says, for lists of forms
    options: type[FormOptions] = FormOptions
    version: int = 1
    min_rollouts: ClassVar[int] = 1  # the fewest rollouts of an item
    max_rollouts: ClassVar[int] = 1

    def parse(
        self,
        raw: object,
        shown: Sequence[int],
        people: People,
        *,
        text: str | None = None,
        turns: int | None = None,
    ) -> Answer:
        """Return the answer in canonical form; parsing that again gives the same.

        Raises BadAnswer. `text` is the text in which `spans` count characters, `turns` the number
        of policy turns. A form that needs one of these raises ValueError without it, and every form
        does for a wrong number of rollouts, because these are mistakes of the caller, not of the
        person.
        """
        self._check(shown)
        if not isinstance(raw, dict):
            raise BadAnswer({"answer": "must be an object with named fields"})
        unknown = sorted(str(key) for key in raw if key not in self.fields)
        if unknown:
            allowed = ", ".join(sorted(self.fields)) or "none"
            raise BadAnswer(
                {
                    field[:100]: f"is not a field of {self.name}; fields: {allowed}"
                    for field in unknown[:10]
                }
            )
        problems: dict[str, str] = {}
        answer = self.read(raw, Question(shown, people, text, turns), problems)
        if problems:
            raise BadAnswer(problems)
        return answer

    def _check(self, shown: Sequence[int]) -> None:
        if not self.min_rollouts <= len(shown) <= self.max_rollouts or len(set(shown)) < len(shown):
            right = (
                f"{self.min_rollouts}"
                if self.min_rollouts == self.max_rollouts
                else f"{self.min_rollouts} to {self.max_rollouts}"
            )
            raise ValueError(f"{self.name} needs {right} different rollouts, not {list(shown)}")

    @abstractmethod
    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        """Return the canonical answer.

        Problems are added by field; if there are any, the result is not used.
        """

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        """Return the value of each rollout by a canonical answer, from 0 (worst) to 1.

        A rollout without a value is absent.
        """
        return {}

    def in_words(self, answer: Answer) -> str:
        """Return a canonical answer as a short text."""
        return ", ".join(f"{name} {value}" for name, value in answer.items())[:MAX_SUMMARY_LENGTH]

    def answer_worth(self, value: float, people: People) -> Answer | None:
        """Return the answer of the simulated rater to a reply worth `value`, from 0 to 1.

        None leaves items of this form to people.
        """
        return None

    def choices(self, people: People) -> Sequence[Any]:
        """Return what item.html offers to choose from, as `shown.choices`."""
        return ()

    def read_options(self, people: People) -> Any:
        """Return the typed options that a run gives the form. Raises ValidationError."""
        return validated(self.options, people.form_options)

    @property
    def folder(self) -> Path:
        file = sys.modules[type(self).__module__].__file__
        assert file is not None  # a form stands in a file of its own
        return Path(file).parent

    @cached_property
    def template(self) -> Template:
        """Return the template of an item, without the prompt. Raises OSError and template errors.

        It has `shown` (apps.feedback.item_display.Shown).
        """
        text = (self.folder / TEMPLATE).read_text(encoding="utf-8")
        return Template(text, name=f"{self.name}/{TEMPLATE}", engine=Engine.get_default())

    @cached_property
    def script(self) -> str:
        """Return the JavaScript module whose `createForm(article, page)` drives the item."""
        return (self.folder / SCRIPT).read_text(encoding="utf-8")


def form_in(module: ModuleType) -> type[Form]:
    """Return the form that a module defines. Raises ValueError unless there is exactly one."""
    [form] = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Form)
        and value.__module__ == module.__name__
    ]
    return form
