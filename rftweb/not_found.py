"""Page for 404, with the message of the view that raised it."""

import re
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

DJANGOS = re.compile(
    r"No \w+ matches the given query\."
)  # get_object_or_404: does not exist, or is not visible to this user


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    reason = next(iter(exception.args), None)  # not a text if no URL pattern matched
    is_sentence = isinstance(reason, str) and " " in reason and not DJANGOS.fullmatch(reason)
    return render(
        request, "404.html", {"words": reason if is_sentence else ""}, status=HTTPStatus.NOT_FOUND
    )
