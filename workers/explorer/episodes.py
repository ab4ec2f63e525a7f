"""Episodes of a run session's rollouts: whose move it is, the actions, and the results.

All messages pass through rows (apps.environments): the explorer writes the policy's actions and
reads new observations. A player makes the moves of library environments and of services that we
call. All other episodes are played by outside clients.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from apps.environments.admitting import admit_episodes, others_play
from apps.environments.closing import (
    Ending,
    end_episode,
    fail_episode,
    fail_overdue,
    settle_episodes,
)
from apps.environments.episode_changes import News, list_news
from apps.environments.episode_opening import open_episodes
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment
from apps.environments.observations import opening
from apps.environments.playing import Action, observe, record_actions
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.config import EnvironmentChoice
from apps.runs.serving import Serve
from workers.explorer.local_player import Move, Reply
from workers.explorer.rollout import InFlightRollout
from workers.explorer.service_player import ServicePlayer, find_player

# How long to wait for the engine while an environment may reply soon: one that this explorer plays
# itself, within so many seconds of the policy's action, and one of callers, at any time.
QUICK_S = 0.005
AT_ONCE_S = 2.0
CALLERS_S = 0.02
OVERDUE_LOOK_S = 1.0
READ_S = 0.1  # seconds between two reads that no notification causes, while an engine works
ROOM_LOOK_S = 0.2  # seconds between two checks whether a service has room
TURN_LIMIT = "turn limit"
ANSWERED = "answered"
LOST = "the database lost the observation when it crashed"


@dataclass(eq=False)
class PlayedRollout:
    """A rollout in flight and its episode.

    `observations_read` is a number; `cut` tells whether the run's length limit cut the last action;
    `is_one_call` marks an unnamed caller's episode, which ends with its answer.
    """

    rollout: InFlightRollout
    episode_id: int
    seed: int
    options: dict[str, Any]
    turn_limit: int
    observations_read: int = 0
    cut: bool = False
    is_one_call: bool = False
    actions: list[str] = field(default_factory=list)
    # When it last became the environment's move.
    since: float = field(default_factory=time.monotonic)


class Episodes:
    """The episodes of one run session. Not thread-safe: only the session uses it."""

    def __init__(
        self, environment: Environment, choice: EnvironmentChoice, serve: Serve | None = None
    ) -> None:
        self.environment = environment
        self.choice = choice
        self.serve = serve
        self.player = find_player(environment)
        self.played: dict[int, PlayedRollout] = {}
        self.away: set[int] = set()  # episodes where it is the environment's move
        self.outside: set[int] = set()  # those of them that wait for a service's room
        self.unwritten_actions: list[Action] = []  # actions not written yet
        self.replies: list[Reply] = []  # replies not written yet
        self.looked_at = time.monotonic()
        self.requested_at = 0.0
        self.read_at = 0.0

    # -- the policy's side

    def open(
        self, groups: Sequence[Group], rows: Sequence[Rollout], rollouts: Iterable[InFlightRollout]
    ) -> None:
        """Begin an episode for each of these rollouts; the environment moves first."""
        opened = open_episodes(self.environment, self.choice, groups, rows)
        for rollout in rollouts:
            episode = opened[rollout.rollout_id]
            played = PlayedRollout(
                rollout, episode.pk, episode.seed, episode.options, episode.turn_limit
            )
            played.is_one_call = self.serve is not None and not episode.key
            self.played[episode.pk] = played
            rollout.episode_id = episode.pk
            if self.environment.is_service:
                self.away.add(episode.pk)
                self.outside.add(episode.pk)
            else:
                self._is_away(played)

    def is_away(self, rollout: InFlightRollout) -> bool:
        """Tell whether the rollout waits for its environment."""
        return rollout.episode_id in self.away

    def act(self, rollout: InFlightRollout, cut: bool) -> None:
        """Write the policy's finished turn, or one that was `cut`, as its action.

        A turn that reached the caller's own length limit does not end the rollout, because the
        rollout still has room.
        """
        played = self.played[rollout.episode_id]
        ids = rollout.turn_tokens(len(rollout.turns) - 1)
        text = rollout.wishes.visible_text(rollout.chat_tokenizer.text(ids))
        before = len(rollout.plan.prompt_ids) + rollout.turn.first
        logprobs = rollout.turn_logprobs() if rollout.wishes.logprobs else None
        version = rollout.version_at(rollout.turn.first)
        self.unwritten_actions.append(
            Action(
                played.episode_id,
                played.observations_read - 1,
                text,
                rollout.turn.first,
                len(ids),
                before,
                cut,
                logprobs,
                version,
            )
        )
        played.cut = cut and not rollout.is_cut_as_wished
        played.actions.append(text)
        self._is_away(played)

    def first_words(self, rollout: InFlightRollout, news: News) -> list[dict[str, Any]]:
        """Return the first messages for the policy: the task's and the first observation.

        In an agent's episode, the agent provides all messages.
        """
        is_agent = self.environment.kind == Environment.Kind.AGENT
        assert news.observation is not None  # the episode has not ended
        return opening([] if is_agent else rollout.plan.prompt, news.observation)

    def _admit_waiting(self) -> None:
        """Begin waiting episodes for which the service has room now.

        Episodes that other explorers play there count against the room.
        """
        if not self.outside or time.monotonic() - self.requested_at < ROOM_LOOK_S:
            return
        self.requested_at = time.monotonic()
        for pk in sorted(admit_episodes(self.environment, self.outside)):
            self.outside.discard(pk)
            self._is_away(self.played[pk])

    def _is_away(self, played: PlayedRollout) -> None:
        played.since = time.monotonic()
        self.away.add(played.episode_id)
        if self.player is not None:
            name = self.environment.address or self.environment.name
            move = Move(
                played.episode_id,
                name,
                played.seed,
                played.options,
                tuple(played.actions),
                played.turn_limit,
            )
            self.player.ask(move)

    # -- the environment's side

    def news(
        self, is_beside: bool = False, is_notified: bool = False
    ) -> list[tuple[PlayedRollout, News]]:
        """Write the actions, let the player make its moves, and read new observations.

        This is one statement. `is_beside` means that the engine is busy with other rollouts. Its
        thread is slowed down by each statement of this one, so rows are then read only after a
        notification, and at intervals, since another explorer may have got the notification.
        """
        has_acted = bool(self.unwritten_actions)
        self._admit_waiting()
        self._write_actions()
        wrote = self._write_replies()
        if time.monotonic() - self.looked_at > OVERDUE_LOOK_S:
            idle_s = self.serve.idle_s if self.serve else None
            fail_overdue(self.environment, list(self.played), idle_s)
            if self.environment.is_service:
                assert isinstance(self.player, ServicePlayer)
                self.player.share(others_play(self.environment, list(self.played)))
            self.looked_at = time.monotonic()
        now = time.monotonic()
        has_cause = has_acted or wrote or is_notified
        if is_beside and not has_cause and now - self.read_at < READ_S:
            return []
        self.read_at = now
        all_news = [
            (self.played[news.episode_id], news)
            for news in list_news(
                {pk: rollout.observations_read for pk, rollout in self.played.items()}
            )
        ]
        for played, news in all_news:
            played.observations_read = news.number + 1
            self.away.discard(played.episode_id)
        return all_news

    def _write_actions(self) -> None:
        for lost in record_actions(self.unwritten_actions):
            with suppress(CannotPlay):
                fail_episode(lost, LOST)
        for action in self.unwritten_actions:
            if self.played[action.episode_id].is_one_call:
                with suppress(CannotPlay):  # ended already
                    end_episode(action.episode_id, ANSWERED)
        self.unwritten_actions.clear()

    def _write_replies(self) -> bool:
        """Write the environment's replies; return whether there were any."""
        if self.player is not None:
            self.replies += self.player.replies()
        has_replies = bool(self.replies)
        while self.replies:
            self._write(self.replies[0])
            self.replies.pop(0)
        return has_replies

    def _write(self, reply: Reply) -> None:
        """Write one reply; fail the episode if the environment broke the protocol.

        A reply to an episode that was closed meanwhile is ignored.
        """
        try:
            if reply.error:
                fail_episode(reply.episode, reply.error)
            else:
                observe(
                    reply.episode,
                    reply.number,
                    reply.observation,
                    reward=reply.reward,
                    done=reply.done,
                    info=reply.info,
                )
        except CannotPlay as why:
            if why.code != "closed":
                fail_episode(reply.episode, str(why))

    def breaks(self, played: PlayedRollout, reason: str) -> None:
        """Fail an episode whose environment sent something unusable."""
        fail_episode(played.episode_id, reason)
        played.rollout.failure = f"environment failed: {reason}"

    def refuses(self, played: PlayedRollout, reason: str) -> None:
        """Reject opening messages that the policy cannot begin on; an agent may correct its own."""
        if self.environment.kind == Environment.Kind.AGENT:
            self.breaks(played, reason)

    # -- the end

    def settle(self, ended: dict[InFlightRollout, str], outcomes: Sequence[Outcome]) -> None:
        """Close the episodes of rollouts that this transaction writes, and record their rewards."""
        failures = {
            outcome.rollout_id: outcome.stop_reason
            for outcome in outcomes
            if outcome.tokens is None
        }
        settle_episodes(
            [
                Ending(
                    rollout.episode_id,
                    rollout.rollout_id,
                    reason,
                    failures.get(rollout.rollout_id, ""),
                )
                for rollout, reason in ended.items()
            ]
        )

    def forget(self, rollouts: Iterable[InFlightRollout]) -> None:
        """Drop the episodes of rollouts that are no longer in flight."""
        ended = {rollout.episode_id for rollout in rollouts}
        for episode in ended & self.played.keys():
            del self.played[episode]
            if self.player is not None:
                self.player.forget(episode)
        self.away -= ended
        self.outside -= ended
        self.requested_at = 0.0  # check for room at once
        self.unwritten_actions = [
            action for action in self.unwritten_actions if action.episode_id not in ended
        ]
        self.replies = [reply for reply in self.replies if reply.episode not in ended]

    def patience(self, seconds: float) -> float:
        """Return how long to wait for the engine: briefly while an environment may reply soon."""
        if self.player is None:
            return min(seconds, CALLERS_S)
        soon = time.monotonic() - AT_ONCE_S
        return (
            min(seconds, QUICK_S)
            if any(self.played[pk].since > soon for pk in self.away)
            else seconds
        )

    def stop(self) -> None:
        if self.player is not None:
            self.player.stop()
