"""Numbers on a command line that no command could use are refused in one sentence."""

import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["simulated_rater", "--grace", "nan"], "'nan' is not a number from 0 to 86400"),
        (["simulated_rater", "--patience", "-1"], "'-1' is not a number from 0 to 86400"),
        (["simulated_rater", "--url", "foo"], "it must be an address such as http://"),
        (["sql", "select 1", "--seconds", "99999999999"], "it must be from 1 to 1000000"),
        (["runs", "list", "--limit", "99999999999999999999"], "it must be from 1 to 1000000"),
        (["up", "--port", "99999"], "'99999' is not a whole number from 0 to 65535"),
        (["demo", "--port", "-1"], "'-1' is not a whole number from 0 to 65535"),
    ],
)
def test_impossible_number_is_refused_with_the_possible_ones(command, sentence):
    with pytest.raises(CommandError) as caught:
        call_command(*command)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("option", "value"), [("--port", "99999"), ("--workers", "0")])
def test_server_refuses_an_impossible_number_before_it_starts(option, value):
    command = [sys.executable, "-m", "rftweb.server", option, value]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"argument {option}: '{value}' is not a whole number from" in done.stderr
