"""Errors in the form of OpenAI's API: {"error": {message, type, param, code}}."""

from rest_framework.response import Response

from apps.accounts import problems
from apps.environments.errors import CannotPlay

INVALID = "invalid_request_error"
BUSY = "rate_limit_error"
OURS = "server_error"
CODES = {
    401: "invalid_api_key",
    403: "insufficient_permissions",
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    429: "rate_limit_exceeded",
}
PASSED_ON = ("Retry-After", "WWW-Authenticate", "Allow")
OF_PLAY = {"closed": 410, "not_your_move": 409, "changed": 409, "used_key": 409}
FIELD_OF_PLAY = {
    "bad_observation": "messages",
    "bad_reward": "reward",
    "used_key": "X-Rftweb-Episode",
}


class Refused(Exception):
    """Raised for the caller; `param` names the field.

    400: a parameter is wrong or cannot be honoured. 422: the call does not fit its episode. 409 and
    429: the call may succeed later, and clients retry it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        super().__init__(message)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}

    @property
    def document(self) -> dict:
        return agent_error_document(self.status, str(self), self.code, self.param)


def agent_error_document(status: int, message: str, code: str, param: str | None = None) -> dict:
    kind = BUSY if status == 429 else OURS if status >= 500 else INVALID
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unsupported(param: str, why: str) -> Refused:
    return Refused(400, "unsupported_parameter", f"{param}: {why}", param)


def refuse_field(param: str, why: str) -> Refused:
    return Refused(400, "invalid_value", f"{param}: {why}", param)


def of_play(why: CannotPlay) -> Refused:
    """Convert a CannotPlay to an API error; a wrong observation refers to the messages."""
    status = OF_PLAY.get(why.code, 400)
    code = "episode_ended" if why.code == "closed" else why.code
    return Refused(status, code, str(why), FIELD_OF_PLAY.get(why.code))


def handle_agent_error(error: Exception, context: dict) -> Response:
    """Return the response to an exception of these views; every exception has one."""
    if isinstance(error, CannotPlay):
        error = of_play(error)
    if isinstance(error, Refused):
        return Response(error.document, error.status, headers=error.headers)
    problem = problems.handle_rest_error(error, context)
    kind = problem.data["type"].removeprefix("urn:rftweb:")
    document = agent_error_document(
        problem.status_code, problem.data["detail"], CODES.get(problem.status_code, kind)
    )
    headers = {name: problem[name] for name in PASSED_ON if name in problem}
    return Response(document, problem.status_code, headers=headers)
