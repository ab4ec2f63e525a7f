"""Check of an environment: played in a process of its own, as the explorer plays it."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from apps.plugins.contract import validated
from apps.plugins.kinds import ENVIRONMENT
from apps.plugins.registry import REGISTRY
from rftweb.testing.failures import PluginFailed, find_plugin, open_plugin, require_none
from workers.explorer.local_player import LibraryPlayer, Move, Reply

WAIT_S = 60.0


def check_environment(
    plugin: Path | str,
    actions: Sequence[str],
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> tuple[list[Any], float]:
    """Return the observations of an episode, the first one included, and the sum of its rewards.

    Raises PluginFailed unless the environment gives the same again to the same seed, options and
    actions, and rewards within its range.
    """
    with open_plugin(plugin) as name:
        about = find_plugin(partial(REGISTRY.find, ENVIRONMENT), name)
        try:
            validated(about.options, options or {}) if about.options else None
        except ValidationError as bad:
            raise PluginFailed(name, [f"options are refused: {bad}"]) from None
        player = LibraryPlayer(about.environment.turn_s)
        try:
            played, again = (
                _played(player, episode, name, seed, dict(options or {}), actions)
                for episode in (1, 2)
            )
        finally:
            player.stop()
    problems = [reply.error for reply in played if reply.error]
    if not problems and [_comparable(played_reply) for played_reply in played] != [
        _comparable(played_reply) for played_reply in again
    ]:
        problems.append("gives something else to the same seed and actions")
    rewarded = [reply.reward for reply in played if reply.reward]
    rewards = [reward for reward in rewarded if isinstance(reward, int | float)]
    if len(rewards) < len(rewarded):
        problems.append("gives a reward that is not a number")
    total = sum(rewards)
    low, high = about.environment.reward_low, about.environment.reward_high
    if any(not low <= reward <= high for reward in rewards):
        problems.append(f"gives a reward outside of its range, {low} to {high}")
    require_none(name, problems)
    return [reply.observation for reply in played], total


def _played(
    player: LibraryPlayer, episode: int, name: str, seed: int, options: dict, actions: Sequence[str]
) -> list[Reply]:
    replies = []
    for count in range(len(actions) + 1):
        player.ask(Move(episode, name, seed, options, tuple(actions[:count])))
        reply = _next(player)
        replies.append(reply)
        if reply.done or reply.error:
            break
    return replies


def _next(player: LibraryPlayer) -> Reply:
    ends = time.monotonic() + WAIT_S
    while not (replies := player.replies()):
        if time.monotonic() > ends:
            return Reply(0, 0, error=f"no answer within {WAIT_S:.0f} s")
        time.sleep(0.01)
    return replies[0]


def _comparable(reply: Reply) -> tuple:
    return reply.observation, reply.reward, reply.done
