"""Errors for REST documents list unknown fields, up to a limit."""

import pytest
from rest_framework import serializers

from apps.accounts.documents import MAX_LISTED_NAMES, Strict, Text


class Note(Strict):
    text = Text(required=False)


@pytest.mark.parametrize("count", [1, MAX_LISTED_NAMES, 100_000])
def test_error_lists_at_most_a_few_unknown_fields_and_their_number(count):
    note = Note(data={f"k{number}": 1 for number in range(count)})
    with pytest.raises(serializers.ValidationError) as refused:
        note.is_valid(raise_exception=True)
    words = refused.value.detail
    assert len(words) == min(count, MAX_LISTED_NAMES)
    assert ("100,000 unknown fields" in str(words["k0"])) == (count > MAX_LISTED_NAMES)
