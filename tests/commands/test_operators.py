"""`manage.py operators`: all of them as text and JSON, one in full, and the response to an unknown
name.
"""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from apps.pipelines.operators import operator_names


def said(*arguments: str) -> str:
    out = io.StringIO()
    call_command("operators", *arguments, stdout=out)
    return out.getvalue()


def test_every_operator_has_a_line_in_the_list():
    assert sorted(line.split()[0] for line in said().splitlines()) == list(operator_names())


def test_single_operator_is_shown_with_its_options():
    assert 'action: "mask"' in said("truncated") and "keep: needed" in said("spread_most")


def test_json_contains_the_schema_of_the_options():
    assert (
        json.loads(said("length", "--json"))["options"]["properties"]["min_tokens"]["default"] == 1
    )


def test_unknown_name_gets_the_nearest_name():
    with pytest.raises(CommandError, match="did you mean 'duplicates'"):
        said("duplicate")
