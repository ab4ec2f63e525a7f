"""A picture that messages show, to who may see its project. Its address is its content, so a browser asks for it once."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.tasksets.models import Picture

FOR_EVER = "private, max-age=31536000, immutable"


@require_safe
@login_required
def picture(request: HttpRequest, sha256: str) -> HttpResponse:
    """Members of a project that keeps it."""
    found = Picture.objects.visible_to(request.user).filter(sha256=sha256).first()
    if found is None:
        raise Http404("no picture of that name in your projects")
    return png(found)


def png(found: Picture) -> HttpResponse:
    """The file; whatever it is taken for, it is shown to our own pages alone and never run."""
    headers = {
        "Cache-Control": FOR_EVER, "ETag": f'"{found.sha256}"', "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin", "Content-Disposition": f'inline; filename="{found.sha256[:12]}.png"',
    }  # fmt: skip
    return HttpResponse(bytes(found.png), content_type="image/png", headers=headers)
