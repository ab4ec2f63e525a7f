"""The episodes that a seat's rollouts are played in: whose move it is, what was done, and what came of it.

All of it goes through rows (apps.environments): the explorer only writes what the policy did and reads what is new. Where the
environment is a class of ours or a service that we call a player makes its moves; others are played from elsewhere.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from apps.environments.admitting import admit, others_play
from apps.environments.closing import Ending, end, fail, fail_overdue, settle
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment
from apps.environments.news import News, news_of
from apps.environments.observations import opening
from apps.environments.opening import open_episodes
from apps.environments.playing import Action, act, observe
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.config import EnvironmentChoice
from apps.runs.serving import Serve
from workers.explorer.caller import player_of
from workers.explorer.flight import Flight
from workers.explorer.player import Move, Reply

QUICK_S, AT_ONCE_S = 0.005, 2.0  # how long the engine is listened to while an environment answers, and for how long that is hoped
OVERDUE_LOOK_S = 1.0
READ_S = 0.01  # between two looks for what callers said, beside an engine at work
ROOM_LOOK_S = 0.2  # between two questions whether a service has room for those that wait
TURN_LIMIT = "turn limit"
ANSWERED = "answered"


@dataclass(eq=False)
class Played:
    """A flight and its episode. `known`: observations taken; `cut`: the last action was cut by the run's length; `is_one_call`: a
    caller's without a name, over when it is answered.
    """

    flight: Flight
    episode_id: int
    seed: int
    options: dict
    turn_limit: int
    known: int = 0
    cut: bool = False
    is_one_call: bool = False
    actions: list[str] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)  # when it last became the environment's move


class Episodes:
    """Not thread-safe: the seat is its only user."""

    def __init__(self, environment: Environment, choice: EnvironmentChoice, serve: Serve | None = None) -> None:
        self.environment, self.choice, self.serve = environment, choice, serve
        self.player = player_of(environment)
        self.played: dict[int, Played] = {}
        self.away: set[int] = set()  # whose move is the environment's
        self.outside: set[int] = set()  # of those: the ones that a service has no room for yet
        self.said: list[Action] = []  # not written yet
        self.replies: list[Reply] = []  # likewise
        self.looked_at, self.asked_at, self.read_at = time.monotonic(), 0.0, 0.0

    # -- the policy's side ------------------------------------------------------------------------------------------

    def open(self, groups: Sequence[Group], rows: Sequence[Rollout], flights: Iterable[Flight]) -> None:
        """Begin an episode for each of these rollouts: it is the environment's move."""
        opened = open_episodes(self.environment, self.choice, groups, rows)
        for flight in flights:
            episode = opened[flight.rollout_id]
            played = Played(flight, episode.pk, episode.seed, episode.options, episode.turn_limit)
            played.is_one_call = self.serve is not None and not episode.key
            self.played[episode.pk] = played
            flight.episode_id = episode.pk
            if self.environment.is_service:
                self.away.add(episode.pk)
                self.outside.add(episode.pk)
            else:
                self._is_away(played)

    def is_away(self, flight: Flight) -> bool:
        """Whether the rollout waits for its environment."""
        return flight.episode_id in self.away

    def act(self, flight: Flight, cut: bool) -> None:
        """The policy has ended its turn, or was `cut` in it: what it said is its action.

        One that is cut where it was wished to be is no end: the rollout has room for more.
        """
        played = self.played[flight.episode_id]
        said = flight.said_in(len(flight.turns) - 1)
        text = flight.wishes.shown(flight.speaker.text(said))
        before = len(flight.script.prompt_ids) + flight.turn.first
        logprobs = flight.told_logprobs() if flight.wishes.logprobs else None
        version = flight.version_at(flight.turn.first)
        self.said.append(
            Action(played.episode_id, played.known - 1, text, flight.turn.first, len(said), before, cut, logprobs, version)
        )
        played.cut = cut and not flight.is_cut_as_wished
        played.actions.append(text)
        self._is_away(played)

    def first_words(self, flight: Flight, news: News) -> list[dict]:
        """What the policy sees first: the task and the first observation; an agent says all of it itself."""
        is_agent = self.environment.kind == Environment.Kind.AGENT
        return opening([] if is_agent else flight.script.prompt, news.observation)

    def _let_in(self) -> None:
        """Begin those that the service has room for by now, beside what other explorers play there."""
        if not self.outside or time.monotonic() - self.asked_at < ROOM_LOOK_S:
            return
        self.asked_at = time.monotonic()
        for pk in sorted(admit(self.environment, self.outside)):
            self.outside.discard(pk)
            self._is_away(self.played[pk])

    def _is_away(self, played: Played) -> None:
        played.since = time.monotonic()
        self.away.add(played.episode_id)
        if self.player is not None:
            name = self.environment.address or self.environment.name
            move = Move(played.episode_id, name, played.seed, played.options, tuple(played.actions), played.turn_limit)
            self.player.ask(move)

    # -- the environment's side -------------------------------------------------------------------------------------

    def news(self, is_beside: bool = False) -> list[tuple[Played, News]]:
        """Write what was done, let the player make its moves, and read what is new: one statement for all episodes.

        `is_beside`: the engine is at work on others, and each of its tokens leads here: then it is read every so often.
        """
        has_acted = bool(self.said)
        self._let_in()
        self._write_actions()
        wrote = self._write_replies()
        if time.monotonic() - self.looked_at > OVERDUE_LOOK_S:
            fail_overdue(self.environment, list(self.played), self.serve and self.serve.idle_s)
            if self.environment.is_service:
                self.player.share(others_play(self.environment, list(self.played)))
            self.looked_at = time.monotonic()
        now = time.monotonic()
        if is_beside and not has_acted and not wrote and now - self.read_at < READ_S:
            return []
        self.read_at = now
        found = [(self.played[news.episode_id], news) for news in news_of({pk: one.known for pk, one in self.played.items()})]
        for played, news in found:
            played.known = news.number + 1
            self.away.discard(played.episode_id)
        return found

    def _write_actions(self) -> None:
        act(self.said)
        for one in [said.episode_id for said in self.said if self.played[said.episode_id].is_one_call]:
            with suppress(CannotPlay):  # it has ended otherwise
                end(one, ANSWERED)
        self.said.clear()

    def _write_replies(self) -> bool:
        """Whether there were any."""
        if self.player is not None:
            self.replies += self.player.replies()
        found = bool(self.replies)
        while self.replies:
            self._write(self.replies[0])
            self.replies.pop(0)
        return found

    def _write(self, reply: Reply) -> None:
        """An environment that breaks the rules of what may be said has failed. One that was closed meanwhile says nothing more."""
        try:
            if reply.error:
                fail(reply.episode, reply.error)
            else:
                observe(
                    reply.episode, reply.number, reply.observation, reward=reply.reward, done=reply.done, info=reply.info
                )  # fmt: skip
        except CannotPlay as why:
            if why.code != "closed":
                fail(reply.episode, str(why))

    def breaks(self, played: Played, reason: str) -> None:
        """What the environment said cannot be used."""
        fail(played.episode_id, reason)
        played.flight.failure = f"environment failed: {reason}"

    def refuses(self, played: Played, reason: str) -> None:
        """The policy cannot begin on what was said; where an agent says it, that is the agent's to mend."""
        if self.environment.kind == Environment.Kind.AGENT:
            self.breaks(played, reason)

    # -- ends -------------------------------------------------------------------------------------------------------

    def settle(self, ended: dict[Flight, str], outcomes: Sequence[Outcome]) -> None:
        """Close the episodes of rollouts that are written in this transaction, and record what they earned."""
        failures = {outcome.rollout_id: outcome.stop_reason for outcome in outcomes if outcome.tokens is None}
        settle(
            [
                Ending(flight.episode_id, flight.rollout_id, reason, failures.get(flight.rollout_id, ""))
                for flight, reason in ended.items()
            ]
        )

    def forget(self, flights: Iterable[Flight]) -> None:
        """These are in flight no longer."""
        gone = {flight.episode_id for flight in flights}
        for episode in gone & self.played.keys():
            del self.played[episode]
            if self.player is not None:
                self.player.forget(episode)
        self.away -= gone
        self.outside -= gone
        self.asked_at = 0.0  # there may be room now
        self.said = [action for action in self.said if action.episode_id not in gone]
        self.replies = [reply for reply in self.replies if reply.episode not in gone]

    def patience(self, seconds: float) -> float:
        """How long to listen to the engine now: not long while an environment is about to answer."""
        soon = time.monotonic() - AT_ONCE_S
        return min(seconds, QUICK_S) if any(self.played[pk].since > soon for pk in self.away) else seconds

    def stop(self) -> None:
        if self.player is not None:
            self.player.stop()
