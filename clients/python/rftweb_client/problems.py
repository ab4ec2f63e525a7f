"""Exceptions of the client, by what the caller can do about them."""

import httpx

PASSING = {429, 502, 503, 504}  # the same request may succeed in a moment


class RftwebError(Exception):
    """The base class of all exceptions of this client."""


class Unreachable(RftwebError):
    """No response came within the client's patience."""

    retry_after_s = None


class Problem(RftwebError):
    """The installation refused the request.

    `errors`: for each dotted field, what is right; `id`: of a server error, for its log.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        errors: dict[str, list[str]],
        fault: str,
        after_s: float | None,
    ):
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = errors
        self.id = fault
        self.retry_after_s = after_s

    @property
    def is_passing(self) -> bool:
        """Tell whether the request may be retried.

        This includes 409 for a write whose first request is still running.
        """
        return self.status in PASSING or (self.status == 409 and "Idempotency-Key" in self.detail)


class Unauthorized(Problem):
    """401: no token, or an invalid one."""


class Forbidden(Problem):
    """403: the token lacks a scope, or its user a role."""


class NotFound(Problem):
    """404: it does not exist, or is not visible to you."""


class Conflict(Problem):
    """409: not possible in the present state."""


class Gone(Problem):
    """410: the episode has ended."""


class NotAcceptable(Problem):
    """422: `errors` says what is right, by field."""


class NotNow(Problem):
    """429: no episode is waiting, or too many requests; retry after `retry_after_s`."""


KINDS = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: NotAcceptable,
    429: NotNow,
}


def read_problem(answer: httpx.Response) -> Problem:
    """Return the exception for a response without a usable document.

    Its status is an error, or its body is not JSON.
    """
    problem = _json(answer)
    kind = KINDS.get(answer.status_code, Problem)
    title = problem.get("title", answer.reason_phrase)
    detail = problem.get("detail", answer.text[:300])
    return kind(
        answer.status_code,
        title,
        detail,
        problem.get("errors", {}),
        problem.get("id", ""),
        retry_after_s(answer),
    )


def retry_after_s(answer: httpx.Response) -> float | None:
    """Return the header's seconds; None if it is missing, or a date, which only proxies send."""
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None


def _json(answer: httpx.Response) -> dict:
    try:
        body = answer.json()
    except ValueError:  # the page of a proxy
        return {}
    return body if isinstance(body, dict) else {}
