"""The page for what is not there, with the words of the view that found nothing."""

import re
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

DJANGOS = re.compile(r"No \w+ matches the given query\.")  # get_object_or_404: not there, or not this person's


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    said = next(iter(exception.args), None)  # of an address that no pattern matches, no text
    is_sentence = isinstance(said, str) and " " in said and not DJANGOS.fullmatch(said)
    return render(request, "404.html", {"words": said if is_sentence else ""}, status=HTTPStatus.NOT_FOUND)
