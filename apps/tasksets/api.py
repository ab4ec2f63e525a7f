"""Pictures over REST. Their address is their content, so whoever has one need not ask again."""

from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.views import APIView

from apps.accounts.models import User
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead
from apps.tasksets import addresses  # noqa: F401 - makes <sha256:…> known
from apps.tasksets.models import Picture

PNG = "image/png"
FOR_EVER = "private, max-age=31536000, immutable"


class OnePicture(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="pictures_show", responses={(200, PNG): OpenApiTypes.BINARY})
    def get(self, request: ApiRequest, sha256: str) -> HttpResponse:
        """Return a picture of a message in your projects, as PNG."""
        return png_for(request.user, sha256)


def png_for(user: User, sha256: str) -> HttpResponse:
    """Return the picture's file, for members of a project that keeps it. Raises Http404.

    Only our own pages show it, and it is never run.
    """
    picture = Picture.objects.visible_to(user).filter(sha256=sha256).first()
    if picture is None:
        raise Http404("your projects have no image with this name")
    headers = {
        "Cache-Control": FOR_EVER,
        "ETag": f'"{picture.sha256}"',
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Content-Disposition": f'inline; filename="{picture.sha256[:12]}.png"',
    }
    return HttpResponse(bytes(picture.png), content_type=PNG, headers=headers)
