"""Gymnasium's environments, played as the child process plays them."""

import pytest

pytest.importorskip(
    "gymnasium", reason="gymnasium is not installed: scripts/setup --with gymnasium"
)

from apps.environments.library.child import Plays
from apps.environments.pull.gymnasium import Gymnasium

MAP = (
    "+---------+\n|(R): |[ ]: :G|\n| : | : : |\n| : : : : |\n| | : | : |\n|<Y>| : |B:"
    " |\n+---------+\n"
)


def begun(name: str, **options: object) -> tuple[Gymnasium, str]:
    played = Gymnasium(name)
    return played, played.reset(3, options)


def test_frozen_lake_is_played_in_words_on_a_map():
    lake, first = begun("FrozenLake-v1", is_slippery=False)
    assert first == "[S]FFF\nFHFH\nFFFH\nHFFG"
    assert lake.step("I go right.").observation == "  (Right)\nS[F]FF\nFHFH\nFFFH\nHFFG"
    fallen = lake.step("down")
    assert (fallen.reward, fallen.done, fallen.info) == (
        0.0,
        True,
        {"terminated": True, "truncated": False},
    )


def test_taxi_describes_its_position_and_gives_an_invalid_action_the_lowest_reward():
    taxi, first = begun("Taxi-v4")
    assert (
        first
        == f"{MAP}the taxi is in row 0, column 2; the passenger waits at red and wants to go to"
        " yellow"
    )
    assert taxi.step("3").observation.endswith(
        "row 0, column 2; the passenger waits at red and wants to go to yellow"
    )
    lost = taxi.step("hover")
    assert (lost.reward, lost.done) == (-10, False)
    assert lost.observation == "that is no action: say south, north, east, west, pickup, dropoff"


def test_blackjack_is_described_in_words():
    table, first = begun("Blackjack-v1")
    assert first == "you have 7, the dealer shows 10"
    assert table.step("hit").observation == "you have 17, the dealer shows 10"
    assert table.step("stick").done


def test_environment_without_text_is_played_in_json():
    swing, first = begun("Pendulum-v1")
    assert first.startswith("[") and swing.step("[0.5]").reward < 0
    refused = swing.step("[NaN]")
    assert refused.reward is None and refused.observation.startswith(
        "that is no action: say one of Box("
    )


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("os:Lake-v1", {}, "Gymnasium has no environment 'os:Lake-v1'"),
        ("Lake-v1", {}, "Gymnasium has no environment 'Lake-v1'"),
        ("FrozenLake-v1", {"deep": True}, "FrozenLake-v1 cannot be made"),
        ("FrozenLake-v1", {"render_mode": "human"}, "options: render_mode: cannot be set"),
    ],
)
def test_environment_that_cannot_be_played_is_rejected_with_the_reason(name, options, reason):
    asked = {"episode": 1, "name": name, "seed": 3, "options": options, "actions": []}
    assert reason in Plays(Gymnasium).answer(asked)["error"]


def test_another_process_continues_an_episode_from_its_actions():
    asked = {
        "episode": 1,
        "name": "Taxi-v4",
        "seed": 7,
        "options": {},
        "actions": ["south", "west"],
    }
    one = Plays(Gymnasium)
    for several in (0, 1):
        one.answer({**asked, "actions": asked["actions"][:several]})
    assert one.answer(asked) == Plays(Gymnasium).answer(asked)
