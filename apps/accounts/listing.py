"""Query parameters of the REST interface, and lists paged by key.

Pages are found by key instead of an offset, so the last page costs as much as the first.
"""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request

from apps.accounts.documents import MAX_ID

PAGE_ROWS = 50
MAX_ROWS = 200


class Query(serializers.Serializer):
    """Parameters of an address.

    Subclasses list them; unknown ones are refused (so is a token put there).
    """

    @classmethod
    def of(cls, request: Request) -> dict:
        """Return the checked parameters. Raise ValidationError."""
        parameters = request.query_params
        field_names = cls().fields.keys()
        wrong = {
            name[:100]: ["Unknown parameter."]
            for name in sorted(set(parameters) - set(field_names))
        }
        wrong |= {
            name: ["Give this parameter once."]
            for name in field_names
            if len(parameters.getlist(name)) > 1
        }
        if wrong:
            raise serializers.ValidationError(wrong)
        query = cls(data=parameters.dict())
        query.is_valid(raise_exception=True)
        return query.validated_data


class Id(serializers.IntegerField):
    """A row's id in an address."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=MAX_ID, **options)


class Paged(Query):
    """Parameters of a list that pages by id.

    `before`: the newest rows below this id, newest first. `after`: the oldest rows above it, oldest
    first.
    """

    before = Id(required=False, help_text="Rows with smaller IDs, newest first.")
    after = Id(
        required=False,
        help_text=("Rows with larger IDs, oldest first, for programs that follow new rows."),
    )
    limit = serializers.IntegerField(
        required=False, default=PAGE_ROWS, min_value=1, max_value=MAX_ROWS
    )

    def validate(self, attrs: dict) -> dict:
        if "before" in attrs and "after" in attrs:
            raise serializers.ValidationError({"after": ["Give before or after, not both."]})
        return attrs


def list_page(
    rows: QuerySet,
    query: dict,
    show: type[serializers.Serializer],
    context: Callable[[list], dict] | None = None,
) -> dict:
    """Return one page as {"items": […], "more": …}, with one query, however long the list is.

    "more" tells whether further rows follow in this direction. `context` is called once with the
    rows, and returns what the serializer needs to know about the user.
    """
    limit = query["limit"]
    if "after" in query:
        page_rows = list(rows.filter(pk__gt=query["after"]).order_by("pk")[: limit + 1])
    else:
        older = rows.filter(pk__lt=query["before"]) if "before" in query else rows
        page_rows = list(older.order_by("-pk")[: limit + 1])
    items = show(
        page_rows[:limit], many=True, context=context(page_rows[:limit]) if context else {}
    ).data
    return {"items": items, "more": len(page_rows) > limit}


def page_serializer(show: type[serializers.Serializer]) -> serializers.Serializer:
    """Return the serializer of such a page, for the OpenAPI document."""
    more = serializers.BooleanField(help_text="Whether there are more rows in this direction.")
    return type(
        f"{show.__name__}Page", (serializers.Serializer,), {"items": show(many=True), "more": more}
    )()
