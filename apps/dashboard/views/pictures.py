"""A picture that messages show, to who may see its project."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.tasksets.api import png_for


@require_safe
@login_required
def picture(request: HttpRequest, sha256: str) -> HttpResponse:
    """Members of a project that keeps it."""
    return png_for(request.user, sha256)
