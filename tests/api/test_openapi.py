"""The OpenAPI document is current, and correct for fuzzed requests. Any 5xx is a bug."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
import yaml
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps.runs.models import Run
from rftweb.wsgi import application
from tests import profiles

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = settings(
    max_examples=profiles.tries(6),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
PATHS = yaml.load(DOCUMENT.read_text(), yaml.CSafeLoader)["paths"]
OPERATIONS = [
    f"{method.upper()} {path}" for path, operations in PATHS.items() for method in operations
]


def test_checked_in_document_is_current():
    current = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=current)
    assert DOCUMENT.read_text() == current.getvalue(), (
        "regenerate it: manage.py spectacular --file docs/openapi.yaml"
    )


def test_every_operation_requires_a_token():
    operations = [operation for path in PATHS.values() for operation in path.values()]
    assert len(operations) == len(OPERATIONS) >= 12
    assert all({"token": []} in operation["security"] for operation in operations)


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    schema = schemathesis.openapi.from_path(DOCUMENT)
    schema.app = application
    # Searching our source for constants would cost a second for each operation.
    schema.config.analysis.constants.enabled = profiles.IS_LONG
    return schema


@pytest.fixture
def caller(program, alice, run, finish) -> Iterator[dict[str, str]]:
    """Return the headers of a program.

    As in Django's own test client, the end of a request leaves the test's transaction open.
    """
    finish(run)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield program(alice).headers
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def point_at_something(case: schemathesis.Case, run: Run, rollout_id: int) -> None:
    """Replace half of the ids by those of existing rows; otherwise nearly all responses are 404."""
    known = {"/runs/": run.pk, "/models/": run.policy_id}
    if (
        case.path_parameters
        and isinstance(number := case.path_parameters.get("id"), int)
        and number % 2
    ):
        case.path_parameters["id"] = next(
            (pk for part, pk in known.items() if part in case.path), rollout_id
        )
    for rating in (
        case.body.get("ratings", [])
        if isinstance(case.body, dict) and isinstance(case.body.get("ratings"), list)
        else []
    ):
        if (
            isinstance(rating, dict)
            and isinstance(rating.get("rollout"), int)
            and rating["rollout"] % 2
        ):
            rating["rollout"] = rollout_id


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("operation", OPERATIONS)
def test_responses_match_the_document_for_any_request(operation, schema, caller, run):
    """Requests are generated here, not by `schema.parametrize()`.

    That would generate those of all operations when tests are collected: four seconds in each
    test process, also in those that run none of them.
    """
    rollout = run.rollouts.first()

    def answer_is_as_documented(case: schemathesis.Case) -> None:
        point_at_something(case, run, rollout.pk)
        # Requests are sent without a client that would decompress the responses.
        headers = {**caller, "Accept-Encoding": "identity"}
        case.validate_response(case.call(headers=headers), checks=CHECKS)

    (made,) = get_all_tests(
        schema=schema.include(name=operation),
        test_func=answer_is_as_documented,
        settings=EXAMPLES,
        given_kwargs=None,
    )
    _, ask = made.ok()
    ask()
