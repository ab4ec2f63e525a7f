"""A client that waits for the policy is notified at once, holds no thread, and is notified a little
later without Redis.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from django.db import connection

from apps.environments import action_waiters
from apps.environments.action_waiters import (
    TurnState,
    Waiters,
    _start_event_loop,
    await_action,
    wait_for_action,
)
from apps.environments.closing import fail_episode
from apps.environments.episode_opening import assign_episode
from apps.environments.models import Episode
from apps.environments.playing import Action, observe, record_actions

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waits(pushed, opened, alice) -> Episode:
    """Return an episode that waits for the policy."""
    opened(pushed)
    episode = assign_episode(pushed, alice)
    observe(episode.pk, 0, "go")
    return episode


@pytest.fixture
def hardly_looks(monkeypatch) -> None:
    """Poll so rarely that only a notification can wake a waiter in time."""
    monkeypatch.setattr(action_waiters, "LOOK_S", 100.0)


@pytest.fixture
def together() -> Iterator[Callable]:
    """Return a function that runs work beside the event loop's waiters and closes their thread's
    connection.
    """

    def run(work: Callable) -> object:
        async def whole() -> object:
            try:
                return await work()
            finally:
                await asyncio.get_running_loop().run_in_executor(Waiters.here().thread, close)

        return asyncio.run(whole())

    yield run


def close() -> None:
    """Close the connection of this thread."""
    connection.close()


async def elsewhere(work: Callable[[], None]) -> None:
    """Run work in a thread of its own, as another process would."""

    def whole() -> None:
        try:
            work()
        finally:
            close()

    await asyncio.to_thread(whole)


def said(episode: Episode, text: str = "left") -> None:
    record_actions([Action(episode.pk, 0, text, 0, 2)])


async def told_while_waiting(
    episode: Episode, happens: Callable[[], None]
) -> tuple[TurnState, float]:
    """Return what the waiter gets, and how many seconds after the event."""
    waiter = asyncio.create_task(await_action(episode.pk, 0, 60))
    while not (Waiters.here().hears or Waiters.here().looker):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)  # it has looked once, and sleeps
    await elsewhere(happens)
    began = time.monotonic()
    return await waiter, time.monotonic() - began


def test_existing_action_is_returned_at_once(waits, together):
    said(waits)
    standing = together(lambda: await_action(waits.pk, 0, 5))
    assert (standing.action, standing.tokens, standing.is_settled) == ("left", 2, True)


def test_waiter_is_notified_when_the_policy_acts(waits, together, hardly_looks):
    standing, seconds = together(lambda: told_while_waiting(waits, lambda: said(waits)))
    assert standing.action == "left" and seconds < 30


def test_waiter_is_notified_when_the_episode_ends(waits, together):
    standing, _ = together(
        lambda: told_while_waiting(waits, lambda: fail_episode(waits.pk, "the board fell down"))
    )
    assert (standing.action, standing.state, standing.reason) == (
        None,
        "failed",
        "the board fell down",
    )


def test_waiter_is_notified_without_redis(waits, together, hardly_looks, dead_redis):
    standing, seconds = together(lambda: told_while_waiting(waits, lambda: said(waits)))
    assert standing.action == "left" and seconds < 30


def test_timeout_returns_the_current_state(waits, together):
    standing = together(lambda: await_action(waits.pk, 0, 0.1))
    assert (standing.action, standing.state, standing.is_settled) == (None, "policy", False)


def test_unknown_episode_raises_lookup_error(waits, together):
    with pytest.raises(LookupError):
        together(lambda: await_action(waits.pk + 1_000, 0, 0.1))


def test_hundred_waiters_all_get_the_action(waits, together):
    async def many() -> list[TurnState]:
        waiters = [asyncio.create_task(await_action(waits.pk, 0, 60)) for _ in range(100)]
        await asyncio.sleep(0.1)
        await elsewhere(lambda: said(waits))
        return await asyncio.gather(*waiters)

    assert {standing.action for standing in together(many)} == {"left"}


def test_thread_can_wait_for_an_action(waits):
    said(waits)
    try:
        assert wait_for_action(waits.pk, 0, 5).action == "left"
    finally:
        Waiters.of_loop[_start_event_loop()].thread.submit(close).result()


def test_announced_action_is_returned_without_a_query(waits, together, hardly_looks, monkeypatch):
    looked_for = []

    def look(keys: list) -> list[TurnState]:
        looked_for.extend(keys)
        return []

    async def acted_after_a_silence() -> TurnState:
        await first_hearing(waits)
        monkeypatch.setattr(Waiters, "look", staticmethod(look))
        began = time.monotonic()
        waiter = asyncio.create_task(await_action(waits.pk, 0, 60, began))
        await asyncio.sleep(0)  # it waits
        await elsewhere(lambda: said(waits))
        return await waiter

    standing = together(acted_after_a_silence)
    assert standing == TurnState(waits.pk, 0, "environment", "", "left", 2)
    assert (waits.pk, 0) not in looked_for


def test_an_action_announced_before_the_wait_begins_is_found(waits, together, hardly_looks):
    async def acted_in_between() -> TurnState:
        await first_hearing(waits)
        began = time.monotonic()
        await elsewhere(lambda: said(waits))
        while waits.pk not in Waiters.here().rung_at:
            await asyncio.sleep(0.01)
        return await await_action(waits.pk, 0, 60, began)

    assert together(acted_in_between).action == "left"


def test_a_long_action_is_read_from_the_database(waits, together, hardly_looks, monkeypatch):
    monkeypatch.setattr(action_waiters, "MAX_ANNOUNCED_LENGTH", 3)
    standing, _ = together(lambda: told_while_waiting(waits, lambda: said(waits)))
    assert standing.action == "left"


async def first_hearing(episode: Episode) -> None:
    """Wait until Redis delivers notifications to this event loop."""
    waiter = asyncio.create_task(await_action(episode.pk, 99, 60))
    while not Waiters.here().hears:
        await asyncio.sleep(0.01)
    waiter.cancel()
    with suppress(asyncio.CancelledError):
        await waiter
