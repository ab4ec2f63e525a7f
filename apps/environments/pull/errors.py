"""Errors of services that cannot be played, with messages for the people who run them."""


class BadAddress(ValueError):
    """Raised for an address that may not be called; the message says why and what is right."""


class CallFailed(Exception):
    """Raised for a service that was unreachable, was cut off, or sent something invalid."""


class BadStatus(CallFailed):
    """Raised for a reply with a status other than 200."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Full(CallFailed):
    """Raised for a server whose sessions are all taken; it is called again later."""


class NoAction(ValueError):
    """Raised for a policy text that is no action; the message tells the policy what is right."""
