"""Errors that no view foresaw still come out as problems."""

import pytest
from django.db import DataError, OperationalError, connection
from rest_framework.test import APIRequestFactory

from apps.accounts.models import User
from apps.accounts.problems import MEDIA_TYPE, by_field, handle_rest_error


@pytest.fixture
def context() -> dict:
    return {"request": APIRequestFactory().get("/api/v1/runs/")}


@pytest.mark.django_db
def test_what_postgres_cannot_store_is_a_bad_request(context):
    with pytest.raises(DataError) as caught:
        User.objects.filter(username="a\0b").exists()
    answer = handle_rest_error(caught.value, context)
    assert (answer.status_code, answer.data["type"]) == (400, "urn:rftweb:unstorable")


def test_a_database_that_is_away_is_worth_another_try(context):
    answer = handle_rest_error(OperationalError("the connection is closed"), context)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_a_fault_of_ours_tells_its_number_and_nothing_else(context, caplog):
    answer = handle_rest_error(RuntimeError("the password is swordfish"), context)
    assert (answer.status_code, answer.content_type) == (500, MEDIA_TYPE)
    assert "swordfish" not in str(answer.data)
    assert answer.data["id"] in caplog.text and "swordfish" in caplog.text


def test_nested_errors_are_told_by_dotted_field():
    detail = {"ratings": [{}, {"stars": ["Too many."]}], "non_field_errors": ["Not so."]}
    assert dict(by_field(detail)) == {"ratings.1.stars": ["Too many."], "body": ["Not so."]}


@pytest.mark.django_db
@pytest.mark.parametrize("code", ["40P01", "40001"])
def test_a_conflict_of_two_transactions_is_worth_another_try_at_once(context, code):
    with pytest.raises(OperationalError) as caught, connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE 'collided' USING ERRCODE = '{code}'; END $$")
    answer = handle_rest_error(caught.value, context)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.data["type"] == "urn:rftweb:busy"
