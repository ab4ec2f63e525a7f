"""Serializer fields that accept exactly what JSON says: no numbers as text, no unknown fields."""

import heapq
import uuid
from typing import Any

from rest_framework import serializers

MAX_ID = 2**63 - 1
MAX_LISTED_NAMES = 20  # unknown fields that an answer names


class Strict(serializers.Serializer):
    """A document that refuses unknown fields, with the names of the known ones."""

    def to_internal_value(self, data: Any) -> dict:
        if isinstance(data, dict) and (unknown := set(data) - set(self.fields)):
            message = f"Unknown field. Known fields: {', '.join(self.fields) or 'none'}."
            if len(unknown) > MAX_LISTED_NAMES:
                message += f" {len(unknown):,} unknown fields were sent; some are listed."
            listed_names = heapq.nsmallest(MAX_LISTED_NAMES, unknown)
            raise serializers.ValidationError({name[:100]: [message] for name in listed_names})
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A JSON number without fraction: no text, no `true`."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return super().to_internal_value(data)


class Number(serializers.FloatField):
    """A JSON number: no text, no `true`."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class Yes(serializers.BooleanField):
    """JSON's `true` or `false`: no text, no number."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=str(data)[:100])
        return data


class Text(serializers.CharField):
    """A JSON string: no number, no `true`."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Slug(serializers.SlugField):
    """A JSON string of letters, digits, - and _: no number."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Choice(serializers.ChoiceField):
    """One of some words; a refusal lists them."""

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, **options)
        words = ", ".join(map(str, self.choices))
        self.error_messages["invalid_choice"] = f"Must be one of {words}."

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)


class Uuid(serializers.UUIDField):
    """A UUID as text in its usual form."""

    def to_internal_value(self, data: Any) -> uuid.UUID:
        if not isinstance(data, str) or len(data) != 36:
            self.fail("invalid", value=str(data)[:100])
        return super().to_internal_value(data)
