"""Read which button of a form was pressed. An unknown value is an error, never a default action."""

from collections.abc import Collection

from django.core.exceptions import BadRequest
from django.http import HttpRequest

MAX_SHOWN_LENGTH = 40
ON = "1"


def posted_action(request: HttpRequest, allowed: Collection[str], field: str = "act") -> str:
    """Return the posted value of `field`. Raise BadRequest unless it is one of `allowed`."""
    value = request.POST.get(field, "")
    if value in allowed:
        return value
    raise BadRequest(_refusal(field, value, allowed))


def posted_flag(request: HttpRequest, field: str, on: str = ON) -> bool:
    """Tell whether an optional button was pressed: no if absent. Raise BadRequest unless `on`."""
    return field in request.POST and posted_action(request, (on,), field) == on


def _refusal(field: str, value: str, allowed: Collection[str]) -> str:
    choices = " or ".join(f"“{choice}”" for choice in allowed)
    problem = f"is “{value[:MAX_SHOWN_LENGTH]}”" if value else "is missing"
    return f"The field “{field}” {problem}. Expected: {choices}."
