"""Error page of a refused request, with the reason that the view gave."""

from http import HTTPStatus

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show the message of a BadRequest.

    Django's own refusals carry details that are not for pages.
    """
    message = str(exception) if isinstance(exception, BadRequest) else ""
    return render(request, "400.html", {"message": message}, status=HTTPStatus.BAD_REQUEST)
