"""Tasksets of the verifiers package, played in its own virtual environment: one turn, several
turns, tools, and failures.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.core.exceptions import ValidationError

from apps.environments.models import Environment
from apps.environments.pull.registering import check_service, register_service
from apps.environments.pull.verifiers import MEMORY_BYTES
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from tests.verifiers_process import PYTHON, ROOT, SLOW_S
from workers.explorer.local_player import Move, Reply, VerifiersPlayer

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(),
    reason="the verifiers package is not installed: scripts/setup --with verifiers",
)

TASKSETS = ["sums_single", "sums_dialogue", "sums_tool", "no_such_taskset"]
CALL = '<tool_call>{"name": "adder_add", "arguments": {"left": 4, "right": 75}}</tool_call>'


@pytest.fixture(autouse=True)
def allowed(settings) -> None:
    settings.VERIFIERS_TASKSETS = TASKSETS
    settings.VERIFIERS_PYTHON = PYTHON
    settings.VERIFIERS_PATH = f"{ROOT / 'tests' / 'verifiers_tasksets'}:{ROOT}"


@pytest.fixture
def player(allowed, player_kept) -> VerifiersPlayer:
    return player_kept


@pytest.fixture(scope="module")
def player_kept() -> Iterator[VerifiersPlayer]:
    """Start one process for all tests of this file: its package imports slowly."""
    player = VerifiersPlayer(SLOW_S)
    yield player
    player.stop()


@pytest.fixture
def play(player, eventually):
    """Return a function that returns the first observation and the reply to each action."""

    def follow(episode: int, taskset: str, *actions: str, turns: int = 4) -> list[Reply]:
        found = []
        for done in range(len(actions) + 1):
            player.ask(Move(episode, taskset, 3, {}, actions[:done], turns))
            found += eventually(player.replies, 2 * SLOW_S)
        return found

    return follow


def test_single_turn_task_is_answered_and_rewarded(play):
    first, last = play(1, "sums_single", "79")
    assert first.observation == [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "4+75"},
    ]
    assert (first.reward, first.done) == (None, False)
    assert (last.observation, last.reward, last.done) == ("", 1.0, True)


def test_verifiers_process_has_a_memory_limit(play, player):
    play(13, "sums_single")
    assert psutil.Process(player.child.pid).rlimit(psutil.RLIMIT_DATA) == (
        MEMORY_BYTES,
        MEMORY_BYTES,
    )


def test_seed_selects_the_row_and_a_wrong_answer_gets_reward_zero(play, player, eventually):
    *_, last = play(2, "sums_single", "80")
    assert (last.reward, last.done) == (0.0, True)
    player.ask(Move(3, "sums_single", 4, {}, ()))
    (other,) = eventually(player.replies, SLOW_S)
    assert other.observation[1]["content"] != "4+75"


def test_later_turns_contain_only_new_messages(play):
    _, second, third, last = play(4, "sums_dialogue", "1", "2", "79")
    assert second.observation == third.observation == [{"role": "user", "content": "no, try again"}]
    assert (last.reward, last.done, last.info["stop_condition"]) == (1.0, True, "user_closed")


def test_the_turn_limit_ends_the_episode_with_its_reward(play):
    *_, last = play(5, "sums_dialogue", "1", "2", turns=2)
    assert (last.reward, last.done) == (0.0, True)


def test_tool_is_described_called_and_answered(play):
    first, result, last = play(6, "sums_tool", f"Let me add. {CALL}", "79")
    manual, question = first.observation
    assert (
        manual["role"] == "system"
        and '"name": "adder_add"' in manual["content"]
        and question["content"] == "4+75"
    )
    assert result.observation == [{"role": "tool", "content": "79"}]
    assert (last.reward, last.done) == (1.0, True)


@pytest.mark.nightly
def test_invalid_tool_call_gets_an_error_message_as_answer(play):
    wrong = '<tool_call>{"name": "subtract", "arguments": {}}</tool_call>'
    _, told, last = play(7, "sums_tool", wrong, "<tool_call>{not json}</tool_call>")
    assert told.observation == [
        {"role": "tool", "content": "error: there is no tool 'subtract'; there are adder_add"}
    ]
    assert last.done


def test_missing_taskset_fails_only_its_own_episode(play):
    (failed,) = play(8, "no_such_taskset")
    assert "no_such_taskset" in failed.error
    assert play(9, "sums_single")[0].error == ""


def test_episode_is_replayed_from_its_actions(play, player, eventually):
    play(10, "sums_dialogue", "1")
    player.ask(Move(11, "sums_dialogue", 3, {}, ("1", "2"), 4))
    (reply,) = eventually(player.replies, SLOW_S)
    assert (reply.number, reply.observation) == (2, [{"role": "user", "content": "no, try again"}])


@pytest.mark.nightly
def test_stopping_the_player_ends_all_its_processes(play, player, eventually):
    play(12, "sums_tool")
    child = psutil.Process(player.child.pid)
    started = child.children(recursive=True)
    assert started
    player.stop()
    eventually(lambda: not any(process.is_running() for process in [child, *started]), 300)


@pytest.mark.nightly
@pytest.mark.django_db
def test_only_listed_tasksets_can_be_registered_and_are_checked(project, settings):
    made = register_service(project, "sums", "verifiers", "sums_single")
    assert "4+75" in check_service(made) or "role" in check_service(made)
    with pytest.raises(ValidationError, match="RFTWEB_VERIFIERS lists"):
        register_service(project, "other", "verifiers", "os")
    settings.VERIFIERS_PYTHON = Path("/nonexistent")
    with pytest.raises(ValidationError, match="scripts/setup --with verifiers"):
        register_service(project, "more", "verifiers", "sums_single")


@pytest.mark.django_db(transaction=True)
def test_run_plays_a_verifiers_taskset_with_the_tiny_policy(
    new_run, tiny_policy, project, stage, eventually
):
    place = Environment.objects.create(
        project=project, name="sums", kind="verifiers", address="sums_single", turn_limit=1
    )
    run = new_run(
        environment={"name": place.name},
        rewards=[],
        sampling={"max_tokens": 60},
        engine="transformers",
        group_size=2,
        max_staleness=0,
    )

    def look() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=run, state=Group.State.SCORING).exists()

    eventually(look, 2 * SLOW_S)
    written = Rollout.objects.filter(run=run, state=Rollout.State.FINISHED)
    words = Reward.objects.filter(rollout__in=written)
    assert written.exists() and {word.value for word in words} <= {0.0, 1.0}, json.dumps(
        [word.reason for word in words]
    )
