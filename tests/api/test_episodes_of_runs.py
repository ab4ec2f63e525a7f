"""A run's episodes as a file over REST, for users who steer it."""

import json

import pytest

from tests.environments.conftest import guessing, opened
from tests.environments.traces.conftest import played, policy

__all__ = ["guessing", "opened", "played", "policy"]
pytestmark = pytest.mark.django_db


def test_owner_downloads_the_episodes_as_jsonl(played, program, alice):
    answer = program(alice).get(f"runs/{played.pk}/episodes.jsonl")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/jsonl")
    assert "lab-run-0-episodes.jsonl" in answer["Content-Disposition"]
    assert len([json.loads(line) for line in answer.getvalue().splitlines()]) == 4


def test_raters_and_strangers_cannot_download_the_episodes(played, program, bob, carol, stranger):
    callers = [program(bob), program(carol), program(bob, "rate"), stranger]
    answers = [caller.get(f"runs/{played.pk}/episodes.jsonl").status_code for caller in callers]
    assert answers == [403, 404, 403, 401]
