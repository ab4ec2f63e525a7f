"""A secret that somebody typed, kept for as long as the work takes that needs it.

It is encrypted under a key made of the installation's secret key: whoever reads the table, or a
backup of it, cannot use what is there.
"""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

KEPT_SECONDS = 24 * 3600


class NotOpened(ValueError):
    """What was sealed is too old, or was sealed under another secret key."""


def seal_secret(text: str) -> str:
    """Encrypt the text; empty stays empty."""
    return _lock().encrypt(text.encode()).decode() if text else ""


def open_secret(sealed: str) -> str:
    """Give back what was sealed within a day; empty stays empty. Raises NotOpened."""
    if not sealed:
        return ""
    try:
        return _lock().decrypt(sealed.encode(), ttl=KEPT_SECONDS).decode()
    except InvalidToken:
        raise NotOpened(
            "it was typed more than a day ago, or RFTWEB_SECRET_KEY has changed"
        ) from None


def _lock() -> Fernet:
    made = hmac.digest(settings.SECRET_KEY.encode(), b"rftweb sealed secrets", "sha256")
    return Fernet(base64.urlsafe_b64encode(made))
