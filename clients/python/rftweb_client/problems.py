"""What goes wrong, by what the caller can do about it."""

import httpx

PASSING = {429, 502, 503, 504}  # the same request may be answered in a moment


class RftwebError(Exception):
    """Whatever this client raises."""


class Unreachable(RftwebError):
    """No answer came for as long as the client's patience lasted."""

    retry_after_s = None


class Problem(RftwebError):
    """The installation refused. `errors`: for each dotted field, what is right; `id`: of a fault, for its log."""

    def __init__(self, status: int, title: str, detail: str, errors: dict[str, list[str]], fault: str, after_s: float | None):
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        self.status, self.title, self.detail, self.errors, self.id, self.retry_after_s = (
            status,
            title,
            detail,
            errors,
            fault,
            after_s,
        )

    @property
    def is_passing(self) -> bool:
        """Whether it may be asked again; a write whose first sending is still at work is refused with 409."""
        return self.status in PASSING or (self.status == 409 and "Idempotency-Key" in self.detail)


class Unauthorized(Problem):
    """401: no token, or one that lives no more."""


class Forbidden(Problem):
    """403: the token lacks a scope, or its person a role."""


class NotFound(Problem):
    """404: not there, or not yours."""


class Conflict(Problem):
    """409: not as things stand."""


class Gone(Problem):
    """410: the episode has ended."""


class NotAcceptable(Problem):
    """422: `errors` says what is right, by field."""


class NotNow(Problem):
    """429: no episode waits, or too much was asked; `retry_after_s` says when it is worth asking again."""


KINDS = {401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: NotAcceptable, 429: NotNow}


def problem_of(answer: httpx.Response) -> Problem:
    """Of an answer that brings nothing that can be used: its status, or a body that is not JSON."""
    said = _json(answer)
    kind = KINDS.get(answer.status_code, Problem)
    title, detail = said.get("title", answer.reason_phrase), said.get("detail", answer.text[:300])
    return kind(answer.status_code, title, detail, said.get("errors", {}), said.get("id", ""), retry_after_s(answer))


def retry_after_s(answer: httpx.Response) -> float | None:
    """Seconds; None where the header is missing, or a date, which only proxies send."""
    said = answer.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _json(answer: httpx.Response) -> dict:
    try:
        said = answer.json()
    except ValueError:  # a proxy's page
        return {}
    return said if isinstance(said, dict) else {}
