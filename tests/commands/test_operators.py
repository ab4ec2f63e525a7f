"""`manage.py operators`: all of them for people and programs, one in full, and what a wrong name is
answered with.
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


def test_every_operator_has_a_line():
    assert sorted(line.split()[0] for line in said().splitlines()) == list(operator_names())


def test_one_is_told_with_its_options():
    assert 'do: "mask"' in said("truncated") and "keep: needed" in said("spread_most")


def test_programs_read_schemas():
    assert json.loads(said("length", "--json"))["options"]["properties"]["fewest"]["default"] == 1


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(CommandError, match="did you mean 'duplicates'"):
        said("duplicate")
