"""Temporary encryption of secrets that users enter for a job, such as access tokens.

The key is derived from the installation's secret key: someone who reads the table, or a backup of
it, cannot use what is stored.
"""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

KEPT_SECONDS = 24 * 3600


class NotOpened(ValueError):
    """Raised for a value that is too old, or was encrypted with another secret key."""


def seal_secret(text: str) -> str:
    """Encrypt the text; an empty text stays empty."""
    return _lock().encrypt(text.encode()).decode() if text else ""


def open_secret(sealed: str) -> str:
    """Decrypt a text that was encrypted within a day; an empty one stays empty.

    Raises NotOpened.
    """
    if not sealed:
        return ""
    try:
        return _lock().decrypt(sealed.encode(), ttl=KEPT_SECONDS).decode()
    except InvalidToken:
        raise NotOpened(
            "it was entered more than a day ago, or RFTWEB_SECRET_KEY has changed"
        ) from None


def _lock() -> Fernet:
    key = hmac.digest(settings.SECRET_KEY.encode(), b"rftweb sealed secrets", "sha256")
    return Fernet(base64.urlsafe_b64encode(key))
