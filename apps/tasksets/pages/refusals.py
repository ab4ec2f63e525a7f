"""Errors for a page without a picture: its markup is at fault, or this machine."""


class NoPage(ValueError):
    """Markup that is not rendered; the message says why."""


class NoRenderer(Exception):
    """Raised if this machine cannot render; the message says what is missing."""
