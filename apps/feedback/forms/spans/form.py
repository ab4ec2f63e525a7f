"""The form for parts of the text, each with a note: `{"spans": [{"start", "end", "note"}]}`.

Positions are characters (Unicode code points, as Python counts; not UTF-16 units), `end` excluded;
canonical spans are in text order. They give no value.
"""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import required, words

MAX_SPANS = 200
MAX_NOTE_LENGTH = 2_000


class Spans(Form):
    name = "spans"
    asks = "Mark spans of the reply, and say why"
    summary = "marked passages with notes"
    fields = frozenset({"spans"})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        if question.text is None:
            raise ValueError("spans need the text that was shown")
        right = f"a list of 1 to {MAX_SPANS} spans"
        if not required(raw, "spans", problems, right):
            return {}
        raw_spans = raw["spans"]
        if not isinstance(raw_spans, list) or not 1 <= len(raw_spans) <= MAX_SPANS:
            problems["spans"] = f"must be {right}"
            return {}
        spans = [
            _span(span, f"spans.{place}", len(question.text), problems)
            for place, span in enumerate(raw_spans)
        ]
        return {"spans": sorted(spans, key=lambda span: (span.get("start", 0), span.get("end", 0)))}


def _span(raw: object, field: str, length: int, problems: dict[str, str]) -> Answer:
    if not isinstance(raw, dict) or not {"start", "end"} <= raw.keys() <= {"start", "end", "note"}:
        problems[field] = "must be an object with start, end and an optional note"
        return {}
    start = raw["start"]
    end = raw["end"]
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
        problems[field] = (
            f"start must be before end, and both within the text's {length} characters"
        )
        return {}
    return {
        "start": start,
        "end": end,
        "note": words(raw.get("note", ""), f"{field}.note", problems, max_length=MAX_NOTE_LENGTH),
    }
