"""Page for 404, with the message of the view that raised it."""

import re
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

DJANGOS = re.compile(
    r"No \w+ matches the given query\."
)  # get_object_or_404: does not exist, or is not visible to this user


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    said = next(iter(exception.args), None)  # not a text if no URL pattern matched
    is_sentence = isinstance(said, str) and " " in said and not DJANGOS.fullmatch(said)
    return render(
        request, "404.html", {"words": said if is_sentence else ""}, status=HTTPStatus.NOT_FOUND
    )
