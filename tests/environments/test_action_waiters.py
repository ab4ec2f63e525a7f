"""Who waits for the policy is told at once, holds no thread meanwhile, and is told a little later
when Redis is away.
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
    _own_loop,
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
    """An episode in which it is the policy's move."""
    opened(pushed)
    episode = assign_episode(pushed, alice)
    observe(episode.pk, 0, "go")
    return episode


@pytest.fixture
def hardly_looks(monkeypatch) -> None:
    """Of itself, as long as a wake-up takes."""
    monkeypatch.setattr(action_waiters, "LOOK_S", 100.0)


@pytest.fixture
def together() -> Iterator[Callable]:
    """Run something beside the event loop's waiters; their thread gives its connection back."""

    def run(work: Callable) -> object:
        async def whole() -> object:
            try:
                return await work()
            finally:
                await asyncio.get_running_loop().run_in_executor(Waiters.here().thread, close)

        return asyncio.run(whole())

    yield run


def close() -> None:
    """The connection of this thread."""
    connection.close()


async def elsewhere(work: Callable[[], None]) -> None:
    """In a thread of its own, as another process would."""

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
    """What the waiter is told, and how many seconds after it happened."""
    waiter = asyncio.create_task(await_action(episode.pk, 0, 60))
    while not (Waiters.here().hears or Waiters.here().looker):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)  # it has looked once, and sleeps
    await elsewhere(happens)
    began = time.monotonic()
    return await waiter, time.monotonic() - began


def test_an_action_that_is_there_is_told_at_once(waits, together):
    said(waits)
    standing = together(lambda: await_action(waits.pk, 0, 5))
    assert (standing.action, standing.tokens, standing.is_settled) == ("left", 2, True)


def test_who_waits_is_told_when_the_policy_acts(waits, together, hardly_looks):
    standing, seconds = together(lambda: told_while_waiting(waits, lambda: said(waits)))
    assert standing.action == "left" and seconds < 30


def test_who_waits_is_told_when_the_episode_ends(waits, together):
    standing, _ = together(
        lambda: told_while_waiting(waits, lambda: fail_episode(waits.pk, "the board fell down"))
    )
    assert (standing.action, standing.state, standing.reason) == (
        None,
        "failed",
        "the board fell down",
    )


def test_without_redis_one_is_told_as_well(waits, together, hardly_looks, dead_redis):
    standing, seconds = together(lambda: told_while_waiting(waits, lambda: said(waits)))
    assert standing.action == "left" and seconds < 30


def test_after_the_timeout_one_hears_how_it_stands(waits, together):
    standing = together(lambda: await_action(waits.pk, 0, 0.1))
    assert (standing.action, standing.state, standing.is_settled) == (None, "policy", False)


def test_an_episode_that_is_not_there_is_said_so(waits, together):
    with pytest.raises(LookupError):
        together(lambda: await_action(waits.pk + 1_000, 0, 0.1))


def test_a_hundred_wait_with_one_look_for_all(waits, together):
    async def many() -> list[TurnState]:
        waiters = [asyncio.create_task(await_action(waits.pk, 0, 60)) for _ in range(100)]
        await asyncio.sleep(0.1)
        await elsewhere(lambda: said(waits))
        return await asyncio.gather(*waiters)

    assert {standing.action for standing in together(many)} == {"left"}


def test_a_thread_waits_as_well(waits):
    said(waits)
    try:
        assert wait_for_action(waits.pk, 0, 5).action == "left"
    finally:
        Waiters.of_loop[_own_loop()].thread.submit(close).result()


def test_an_announced_action_is_told_without_a_look(waits, together, hardly_looks, monkeypatch):
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
    monkeypatch.setattr(action_waiters, "LONGEST_ANNOUNCED", 3)
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
