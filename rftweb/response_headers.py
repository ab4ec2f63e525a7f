"""Headers of all responses: browser features are off, and caches store nothing personal."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Pages use none of these, so a page scripted by a reply cannot either. Chromium logs a warning for
# names that it does not know, so only known ones are here.
UNUSED_FEATURES = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "gamepad",
    "geolocation",
    "gyroscope",
    "hid",
    "identity-credentials-get",
    "idle-detection",
    "local-fonts",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "publickey-credentials-get",
    "screen-wake-lock",
    "serial",
    "storage-access",
    "usb",
    "xr-spatial-tracking",
)
PERMISSIONS_POLICY = ", ".join(f"{feature}=()" for feature in UNUSED_FEATURES)
# The administration's theme evaluates expressions in its markup (Alpine) and sets styles inline.
# Its scripts still come from this site alone.
ADMIN_ALSO_ALLOWS = {"script-src": ["'unsafe-eval'"], "style-src": ["'unsafe-inline'"]}
ADMIN = "/admin/"
LOGOUT = "/accounts/logout/"
NEVER_STORED = ("/api/", "/v1/", "/openenv/", "/accounts/", ADMIN)


class ResponseHeaders:
    """Add `Permissions-Policy`, `Cache-Control` and the administration's content policy."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        response.setdefault("Cache-Control", _cache_control(request))
        if request.path_info.startswith(ADMIN):
            # django-csp reads it after this middleware.
            setattr(response, "_csp_update", ADMIN_ALSO_ALLOWS)  # noqa: B010
        if request.path_info == LOGOUT and request.method == "POST":
            response["Clear-Site-Data"] = '"cache"'  # so that "back" shows no private page
        return response


def _cache_control(request: HttpRequest) -> str:
    """Return the Cache-Control value.

    REST responses and the administration are never stored; only the browser may keep pages.
    `no-store` on pages would also discard typed text when the user comes back to a page.
    """
    if request.path_info.startswith(NEVER_STORED):
        return "no-store"
    return "private, no-cache"
