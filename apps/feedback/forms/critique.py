"""Free words: the answer is `{}`, the words stand in the rating's critique, as they may beside any other answer."""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, Asked, BadAnswer, Form
from apps.feedback.forms.words import words


class Critique(Form):
    name, fields = "critique", frozenset()

    def read(self, raw: Mapping[str, Any], asked: Asked, problems: dict[str, str]) -> Answer:
        return {}


def critique_of(raw: object, form: str) -> str:
    """The storable critique beside an answer of this form. Raises BadAnswer: too long, or empty where it is all there is."""
    problems: dict[str, str] = {}
    text = words(raw, "critique", problems, needed=form == Critique.name)
    if problems:
        raise BadAnswer(problems)
    return text
