"""Errors for REST documents list unknown fields, up to a limit."""

import pytest
from rest_framework import serializers

from apps.accounts.documents import MOST_NAMED, Strict, Text


class Note(Strict):
    text = Text(required=False)


@pytest.mark.parametrize("count", [1, MOST_NAMED, 100_000])
def test_error_lists_at_most_a_few_unknown_fields_and_their_number(count):
    note = Note(data={f"k{number}": 1 for number in range(count)})
    with pytest.raises(serializers.ValidationError) as refused:
        note.is_valid(raise_exception=True)
    words = refused.value.detail
    assert len(words) == min(count, MOST_NAMED)
    assert ("100,000 unknown fields" in str(words["k0"])) == (count > MOST_NAMED)
