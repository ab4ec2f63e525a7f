"""Why a service could not be played, in words for the people who run it."""


class BadAddress(ValueError):
    """The address may not be called; the message says why and what is right."""


class CallFailed(Exception):
    """The service broke: it could not be reached, was cut off, or said what cannot be said."""


class BadStatus(CallFailed):
    """It answered, with another status than 200."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Full(CallFailed):
    """All of its sessions are taken: nothing is wrong, it is asked again later."""


class NoAction(ValueError):
    """What the policy said is no action; the message tells it what is right."""
