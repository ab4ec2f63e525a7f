"""Convert a posted rating form to the answer that a browser would send as JSON.

Only the shape is converted; `apps.feedback.forms` validates it. A value that is not a number stays
a text, so that the validation can refuse it with a message.
"""

from collections.abc import Callable, Sequence

from django.http import QueryDict

from apps.feedback.forms import FORMS

TURN = "turn:"
SCALE = "scale:"
RANK = "rank:"


def answer_in(form: str, posted: QueryDict, member_ids: Sequence[int]) -> dict:
    """Return the raw answer to an item of this form."""
    if form in READERS:
        return READERS[form](posted, member_ids)
    return {name: _number(text) for name in FORMS[form].fields if (text := _text(posted, name))}


def _stars(posted: QueryDict, _shown: Sequence[int]) -> dict:
    return _number_field(posted, "stars")


def _thumbs(posted: QueryDict, _shown: Sequence[int]) -> dict:
    return {"up": posted["up"] == "yes"} if posted.get("up") in ("yes", "no") else {}


def _pairwise(posted: QueryDict, _shown: Sequence[int]) -> dict:
    return (
        {"both_bad": True}
        if posted.get("preference") == "both_bad"
        else _number_field(posted, "preference")
    )


def _best_worst(posted: QueryDict, _shown: Sequence[int]) -> dict:
    return _number_field(posted, "best") | _number_field(posted, "worst")


def _ranking(posted: QueryDict, member_ids: Sequence[int]) -> dict:
    return {
        "ranks": {
            str(pk): _number(text) for pk in member_ids if (text := _text(posted, f"{RANK}{pk}"))
        }
    }


def _rubric(posted: QueryDict, _shown: Sequence[int]) -> dict:
    return {"scales": _fields_named(posted, SCALE)}


def _turns(posted: QueryDict, _shown: Sequence[int]) -> dict:
    if first := posted.get("first_error"):
        return {"first_error": None if first == "none" else _number(first)}
    return {"marks": _fields_named(posted, TURN)}


READERS: dict[str, Callable[[QueryDict, Sequence[int]], dict]] = {
    "stars": _stars,
    "thumbs": _thumbs,
    "pairwise": _pairwise,
    "best_worst": _best_worst,
    "ranking": _ranking,
    "rubric": _rubric,
    "turns": _turns,
}


def _number_field(posted: QueryDict, name: str) -> dict:
    text = _text(posted, name)
    return {name: _number(text)} if text else {}


def _fields_named(posted: QueryDict, prefix: str) -> dict:
    return {
        key.removeprefix(prefix): _number(_text(posted, key))
        for key in posted
        if key.startswith(prefix)
    }


def _text(posted: QueryDict, name: str) -> str:
    return str(posted.get(name) or "")


def _number(text: str) -> int | str:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else text
