"""The form for free text: the answer is `{}`, the text is the rating's critique.

Other forms may have a critique beside their answer too.
"""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, BadAnswer, Form, Question
from apps.feedback.forms.words import words


class Critique(Form):
    name = "critique"
    asks = "What is good or wrong about this reply?"
    summary = "free text"
    fields = frozenset()

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        return {}


def critique_of(raw: object, form: str) -> str:
    """Return the storable critique beside an answer of this form.

    Raises BadAnswer: too long, or empty although the form asks for nothing else.
    """
    problems: dict[str, str] = {}
    text = words(raw, "critique", problems, needed=form == Critique.name)
    if problems:
        raise BadAnswer(problems)
    return text
