"""The text as it should have been: `{"text": …}`. It gives no number; it becomes a demonstration."""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, Asked, Form
from apps.feedback.forms.words import required, words


class Rewrite(Form):
    name, fields = "rewrite", frozenset({"text"})

    def read(self, raw: Mapping[str, Any], asked: Asked, problems: dict[str, str]) -> Answer:
        if not required(raw, "text", problems, "the text as it should have been"):
            return {}
        return {"text": words(raw["text"], "text", problems, needed=True)}
