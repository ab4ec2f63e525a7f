"""Errors in OpenEnv's form: {"detail": a text, or a list of {type, loc, msg}}."""

from rest_framework.response import Response

from apps.accounts import problems
from apps.environments.openenv.access import Refused

PASSED_ON = ("Retry-After", "WWW-Authenticate", "Allow")


def handle_openenv_error(error: Exception, context: dict) -> Response:
    """Return the response to an exception of these views; every exception has one."""
    if isinstance(error, Refused):
        return Response({"detail": str(error)}, error.status)
    problem = problems.handle_rest_error(error, context)
    headers = {name: problem[name] for name in PASSED_ON if name in problem}
    return Response({"detail": problem.data["detail"]}, problem.status_code, headers=headers)
