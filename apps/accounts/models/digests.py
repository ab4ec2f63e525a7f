"""Digests of secrets that are shown once: tokens and invitation links."""

import hashlib


def digest_of(secret: str) -> str:
    """Return the sha256 digest by which a secret is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()
