"""Errors that no view handles still become problem documents."""

import pytest
from django.db import DataError, OperationalError, connection
from rest_framework.test import APIRequestFactory

from apps.accounts.models import User
from apps.accounts.problems import MEDIA_TYPE, by_field, handle_rest_error


@pytest.fixture
def context() -> dict:
    return {"request": APIRequestFactory().get("/api/v1/runs/")}


@pytest.mark.django_db
def test_value_postgres_cannot_store_is_a_bad_request(context):
    with pytest.raises(DataError) as caught:
        User.objects.filter(username="a\0b").exists()
    answer = handle_rest_error(caught.value, context)
    assert (answer.status_code, answer.data["type"]) == (400, "urn:rftweb:unstorable")


def test_closed_database_connection_gives_503_with_retry_after(context):
    answer = handle_rest_error(OperationalError("the connection is closed"), context)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_internal_error_shows_only_its_id_and_logs_the_details(context, caplog):
    answer = handle_rest_error(RuntimeError("the password is swordfish"), context)
    assert (answer.status_code, answer.content_type) == (500, MEDIA_TYPE)
    assert "swordfish" not in str(answer.data)
    assert answer.data["id"] in caplog.text and "swordfish" in caplog.text


def test_nested_errors_are_keyed_by_dotted_field_name():
    detail = {"ratings": [{}, {"stars": ["Too many."]}], "non_field_errors": ["Not so."]}
    assert dict(by_field(detail)) == {"ratings.1.stars": ["Too many."], "body": ["Not so."]}


@pytest.mark.django_db
@pytest.mark.parametrize("code", ["40P01", "40001"])
def test_transaction_conflict_gives_503_with_retry_after_one_second(context, code):
    with pytest.raises(OperationalError) as caught, connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE 'collided' USING ERRCODE = '{code}'; END $$")
    answer = handle_rest_error(caught.value, context)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.data["type"] == "urn:rftweb:busy"
