"""The three example environments, each in its own language, play whole episodes against a real
server.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apps.environments.models import Environment, Episode, EpisodeTurn

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
CLIENTS = Path(__file__).resolve().parents[2] / "clients"


def guessed(heard: list[str]) -> str:
    """Halve the remaining range, so that the fifth guess is right at the latest."""
    low = 1
    high = 16
    for word in heard[1:]:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if word == "Higher." else (low, middle - 1)
    return f"my guess is {(low + high) // 2}"


def added(heard: list[str]) -> str:
    a, b = map(int, re.findall("[0-9]+", heard[-1]))
    return f"{a + b}, I think"


def half_sorted(heard: list[str]) -> str:
    return "".join(sorted(re.search("[0-9]{5}", heard[-1])[0]))[:3]


# name, command, what the policy says, what each of its episodes earns
EXAMPLES = [
    ("guess", [sys.executable, "guess.py"], guessed, 1.0),
    ("add", ["bash", "add.sh"], added, 1.0),
    ("sort", ["node", "sort.mjs"], half_sorted, 0.6),
]
NEEDS = {"guess": [], "add": ["bash", "curl", "jq"], "sort": ["node"]}


@pytest.mark.parametrize(
    ("name", "command", "says", "earns"), EXAMPLES, ids=[name for name, *_ in EXAMPLES]
)
def test_example_environment_plays_its_game(
    served, token, open_group, act_until_done, eventually, name, command, says, earns
):
    if missing := [tool for tool in NEEDS[name] if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    known = {"RFTWEB_ADDRESS": served, "RFTWEB_TOKEN": token, "PYTHONPATH": str(CLIENTS / "python")}
    with subprocess.Popen(
        command, cwd=CLIENTS / "examples", env={**os.environ, **known}, stdout=subprocess.DEVNULL
    ) as playing:
        try:
            eventually(
                lambda: Environment.objects.filter(name=name).exists() or playing.poll() is not None
            )
            ids = open_group(name)
            act_until_done(ids, says)
            assert set(Episode.objects.filter(pk__in=ids).values_list("state", flat=True)) == {
                "done"
            }
            assert playing.poll() is None  # it waits for the next
        finally:
            playing.terminate()
    turns = EpisodeTurn.objects.filter(episode__in=ids, reward__isnull=False)
    assert [sum(turn.reward for turn in turns.filter(episode=pk)) for pk in ids] == [earns, earns]
