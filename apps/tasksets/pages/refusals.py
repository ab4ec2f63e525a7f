"""Why there is no picture of a page: its markup is at fault, or this machine."""


class NoPage(ValueError):
    """This markup is not rendered; the message says why."""


class NoRenderer(Exception):
    """Nothing is rendered on this machine; the message says what is missing."""
