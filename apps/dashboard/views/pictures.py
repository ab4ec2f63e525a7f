"""Pictures of messages, for people who may see their project."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.tasksets.api import png_for


@require_safe
@login_required
def serve_picture(request: SignedInRequest, sha256: str) -> HttpResponse:
    """Members of a project that has the picture."""
    return png_for(request.user, sha256)
