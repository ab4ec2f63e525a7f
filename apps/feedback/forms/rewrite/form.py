"""The form for a corrected text: `{"text": …}`.

It gives no value; it becomes a demonstration.
"""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import required, words


class Rewrite(Form):
    name = "rewrite"
    asks = "Correct the reply"
    summary = "a corrected reply"
    fields = frozenset({"text"})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        if not required(raw, "text", problems, "the corrected text"):
            return {}
        return {"text": words(raw["text"], "text", problems, needed=True)}
