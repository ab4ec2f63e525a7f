"""A rollout in flight: what has been said in it so far, by which weight version, and by whom where it was not the policy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from apps.environments.wishes import NO_WISHES, Wishes
from apps.policies.manifest import Shown
from apps.rollouts.models import Claim, Outcome
from apps.rollouts.payload import Tokens
from apps.rollouts.repeats import LoopWatch
from apps.rollouts.turns import BETWEEN_TURNS, POLICY, USER, Turn, Typed
from apps.tasksets.selection import chance
from workers.engines.interface import Delta, Request, Sampling
from workers.explorer.clock import Clock
from workers.explorer.scripts import FollowUp, Script
from workers.explorer.speaker import Speaker, Spelling, Typist

FAILED = "error"


@dataclass
class Passage:
    """One turn while it is written. `typed`: (the act, first token, one past its last), places in the completion.

    `before`: what the policy had said of it when somebody first laid a hand on it.
    """

    role: str
    first: int
    text: str
    typist: Typist
    typed: list[tuple[int, int, int]] = field(default_factory=list)
    before: str | None = None


@dataclass(eq=False)
class Flight:
    rollout_id: int
    claim: Claim
    script: Script
    speaker: Speaker
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    heard: list[Shown] = field(default_factory=list)  # pictures behind the prompt, places counted from its end
    turns: list[Passage] = field(default_factory=list)
    request_id: str = ""  # of the request that goes on with it; none while it is held
    base: int = 0  # tokens here when that request began
    held_until: float | None = None  # on the monotonic clock
    held_for: float = 0.0  # seconds, all holds together
    episode_id: int = 0  # that it is played in; none in a run without environment
    failure: str = ""  # why nothing of it can be used
    wishes: Wishes = NO_WISHES  # for the turn under way
    has_stopped: bool = False  # a text that was wished for has ended it
    watch: LoopWatch | None = None  # of the turn under way
    is_looping: bool = False
    slices: int = 0  # it had before this one
    slice_ends: int | None = None  # tokens here when its slice is over
    is_set_aside: bool = False  # its slice is over: it waits for the others of its group
    is_stored: bool = False  # as it is set aside
    clock: Clock = field(default_factory=Clock)
    seed: int = field(kw_only=True)  # of its random numbers; no other rollout of the run has it
    rewrites: int = 0  # times that a person rewrote a turn of it

    def __post_init__(self) -> None:
        self.clock.limit = self.script.time_s
        self._begin_turn()
        self.begin_slice()

    def begin_slice(self) -> None:
        """It may say as much as a slice has from here on."""
        self.slice_ends = None if self.script.slice_tokens is None else len(self.token_ids) + self.script.slice_tokens

    @property
    def turn(self) -> Passage:
        """The one under way, or, once it has ended, the last."""
        return self.turns[-1]

    @property
    def room(self) -> int:
        """Tokens that may still be added."""
        return self.script.room - len(self.token_ids)

    @property
    def pictures(self) -> tuple[Shown, ...]:
        """All that it shows, places counted from the prompt's first token."""
        return (*self.script.pictures, *_moved(self.heard, len(self.script.prompt_ids)))

    @property
    def is_idle(self) -> bool:
        """Nobody goes on with it, and nobody holds it."""
        return not self.request_id and self.held_until is None

    def going_on(self, request_id: str, temperature: float) -> Request:
        """The request that goes on with it from now on, from all that is here."""
        self.request_id, self.base, self.held_until = request_id, len(self.token_ids), None
        self.is_set_aside = False
        said, left = len(self.token_ids) - self.turn.first, self.script.max_tokens - len(self.token_ids)
        if self.slice_ends is not None:
            left = min(left, self.slice_ends - len(self.token_ids))
        if self.wishes.max_tokens is not None:
            left = min(left, max(1, self.wishes.max_tokens - said))  # a person may have typed more
        sampling = Sampling(left, temperature, self.speaker.stop_token_ids, self.request_seed)
        return Request(request_id, (*self.script.prompt_ids, *self.token_ids), sampling, self.pictures)

    @property
    def request_seed(self) -> int:
        """The caller's, or its own; after a person's rewrite another, so that the policy says something else."""
        if self.wishes.seed is not None:
            return self.wishes.seed
        return chance.seed("rewrite", self.seed, self.rewrites) if self.rewrites else self.seed

    def rest(self, now: float) -> None:
        """The engine is not at it any more."""
        self.request_id = ""
        self.clock.stand(now)

    # -- slices -----------------------------------------------------------------------------------------------------

    @property
    def slice_is_over(self) -> bool:
        return self.slice_ends is not None and len(self.token_ids) >= self.slice_ends

    def is_cut_by_slice(self, stop_reason: str) -> bool:
        """Whether the engine stopped because the slice was over, and more is to be said."""
        return stop_reason == "length" and self.slice_is_over and self.room > 0

    def set_aside(self) -> None:
        self.request_id, self.held_until, self.is_set_aside, self.is_stored = "", None, True, False

    # -- what is said -----------------------------------------------------------------------------------------------

    def take(self, delta: Delta) -> str:
        """Append the engine's news; returns the text it adds. Raises ValueError when tokens are missing between.

        The token that completes a text which ends the turn is the last that is taken: `has_stopped` then.
        """
        if self.base + delta.offset != len(self.token_ids):
            raise ValueError(
                f"rollout {self.rollout_id}: the engine went on at token {self.base + delta.offset}, {len(self.token_ids)} are here"
            )
        if delta.token_ids:
            self._sampled_by(delta.version)
        before = len(self.turn.text)
        one_by_one = self.wishes.has_stops
        for place, token_ids in enumerate([(token,) for token in delta.token_ids] if one_by_one else [delta.token_ids]):
            logprobs = delta.logprobs[place : place + 1] if one_by_one else delta.logprobs
            self._append(token_ids, logprobs, 1)
            for token in token_ids if self.watch else ():
                self.is_looping |= self.watch.push(token) > 0
            self.turn.text += self.turn.typist.push(token_ids)
            self.has_stopped = self.wishes.is_met_by(self.turn.text)
            if self.has_stopped:
                break
        return self.turn.text[before:]

    @property
    def is_cut_as_wished(self) -> bool:
        """Whether the turn has all the tokens that were wished for, while the rollout has room for more."""
        return (
            self.wishes.max_tokens is not None and len(self.token_ids) - self.turn.first >= self.wishes.max_tokens and self.room > 0
        )

    def hear(self) -> FollowUp | None:
        """The user's next words, once the policy has ended a turn; None when there are none, or no room for an answer."""
        heard = sum(turn.role == USER for turn in self.turns)
        return self.hear_out(self.script.follow_ups[heard]) if heard < len(self.script.follow_ups) else None

    def hear_out(self, follow_up: FollowUp) -> FollowUp | None:
        """These words, once the policy has ended a turn; None when they leave no room for an answer.

        Where the turn was ended for the policy, its stop token goes before them: the template has one there.
        """
        ended = self.token_ids[-1:] and self.token_ids[-1] in self.speaker.stop_token_ids
        if not ended:
            stop = self.speaker.stop_token_ids[:1]
            follow_up = replace(follow_up, token_ids=(*stop, *follow_up.token_ids), pictures=_moved(follow_up.pictures, len(stop)))
        if len(follow_up.token_ids) >= self.room:
            return None
        self.turns.append(Passage(USER, len(self.token_ids), follow_up.text, Typist(self.speaker)))
        self.heard += _moved(follow_up.pictures, len(self.token_ids))
        self._append(follow_up.token_ids, (0.0,) * len(follow_up.token_ids), 0)
        self._begin_turn()
        return follow_up

    @property
    def is_cut_short(self) -> bool:
        """Whether the user would have more to say."""
        return sum(turn.role == USER for turn in self.turns) < len(self.script.follow_ups)

    def drop_unanswered(self) -> None:
        """Without a user's last words that the policy has not begun to answer."""
        if len(self.turns) > 1 and self.turn.first == len(self.token_ids):
            self.turns.pop()
            self._cut(self.turns.pop().first)

    def version_at(self, place: int) -> int | None:
        """The weight version that sampled the token at this place of the completion."""
        return next((version for start, version in reversed(self.segments) if start <= place), None)

    def told_logprobs(self) -> list[tuple[str, list[int], float]]:
        """(text, bytes, logprob) of each token of the turn, without its stop token. Logprobs in nats; 0 of what was typed."""
        said = self.said_in(len(self.turns) - 1)
        if said and said[-1] in self.speaker.stop_token_ids:
            said.pop()
        logprobs = self.logprobs[self.turn.first :]
        return [(*spelt, logprob) for spelt, logprob in zip(self.speaker.spelling(said), logprobs, strict=False)]

    # -- what people do ---------------------------------------------------------------------------------------------

    def said_in(self, number: int) -> list[int]:
        """Tokens of a turn."""
        turn = self.turns[number]
        past = self.turns[number + 1].first if number + 1 < len(self.turns) else len(self.token_ids)
        return self.token_ids[turn.first : past]

    def rewrite(self, number: int, spelling: Spelling, act_id: int, version: int) -> None:
        """Turn `number` of the policy is this from now on, and the last; typed tokens are nobody's sample: mask and logprob 0."""
        turn = self.turns[number]
        self.rewrites += 1
        del self.turns[number + 1 :]
        turn.before = turn.text if turn.before is None else turn.before
        self._watch_anew()
        self._cut(turn.first + spelling.kept)
        self._type(spelling.token_ids, act_id, version)
        turn.text, turn.typist = spelling.text, Typist(self.speaker)
        turn.typist.push(tuple(self.said_in(number)))

    def end_turn(self, act_id: int, version: int) -> None:
        """The person is done with the turn: its stop token, typed."""
        self._type(self.speaker.stop_token_ids[:1], act_id, version)

    def _type(self, token_ids: Sequence[int], act_id: int, version: int) -> None:
        if not token_ids:
            return
        if not self.segments:
            self._sampled_by(version)  # it was said while this version served
        first = len(self.token_ids)
        self._append(token_ids, (0.0,) * len(token_ids), 0)
        marks = self.turn.typed
        if marks and marks[-1][0] == act_id and marks[-1][2] == first:
            first = marks.pop()[1]
        marks.append((act_id, first, len(self.token_ids)))

    # -- the arrays -------------------------------------------------------------------------------------------------

    def _begin_turn(self) -> None:
        self.turns.append(Passage(POLICY, len(self.token_ids), "", Typist(self.speaker)))
        self._watch_anew()

    def _watch_anew(self) -> None:
        """Loops are looked for within a turn; after a person has written in it, in what the policy says from there on."""
        self.watch, self.is_looping = LoopWatch(*self.script.repeats) if self.script.repeats else None, False

    def watch_on(self) -> None:
        """Likewise after it was taken up again: as far back as a loop may reach."""
        self._watch_anew()
        if self.watch:
            period, times, tokens = self.script.repeats
            far = len(self.token_ids) - max(times * period, tokens)
            for token in self.token_ids[max(far, self.turn.first, *(past for _, _, past in self.turn.typed)) :]:
                self.watch.push(token)

    def _append(self, token_ids: Sequence[int], logprobs: Sequence[float], mask: int) -> None:
        self.token_ids += token_ids
        self.logprobs += logprobs
        self.mask += [mask] * len(token_ids)

    def _sampled_by(self, version: int) -> None:
        if not self.segments or self.segments[-1][1] != version:
            self.segments.append((len(self.token_ids), version))

    def _cut(self, length: int) -> None:
        """Forget every token from this place on, and all that is known of it."""
        del self.token_ids[length:], self.logprobs[length:], self.mask[length:]
        self.segments = [(start, version) for start, version in self.segments if start < length]
        self.heard = [shown for shown in self.heard if shown.past <= length]
        last = self.turn
        last.typed = [(act, start, min(past, length)) for act, start, past in last.typed if start < length]

    # -- how it ended -----------------------------------------------------------------------------------------------

    def outcome(self, stop_reason: str) -> Outcome:
        """How it ended: with its tokens, or failed without any."""
        if self.failure:
            return Outcome(self.rollout_id, None, "", self.failure)
        if stop_reason == FAILED or not self.token_ids:
            return Outcome(self.rollout_id, None, "", f"the engine returned nothing ({stop_reason})")
        tokens = Tokens(
            self.script.prompt_ids, tuple(self.token_ids), tuple(self.logprobs), tuple(self.mask), tuple(self.segments),
            tuple((sha256(shown.png).hexdigest(), shown.first, shown.past) for shown in self.pictures),
        )  # fmt: skip
        turns = self._turns()
        is_plain = len(turns) == 1 and not turns[0].typed
        text = BETWEEN_TURNS.join(turn.text for turn in turns)
        return Outcome(self.rollout_id, tokens, text, stop_reason, () if is_plain else tuple(turns))

    def _turns(self) -> list[Turn]:
        found, start = [], 0
        for number, turn in enumerate(self.turns):
            said = self.said_in(number)
            text = turn.text if turn.role == USER else self.speaker.text(said)
            typed = tuple(self._mark(turn, said, text, start, mark) for mark in turn.typed)
            found.append(Turn(turn.role, text, start, turn.first, len(said), typed))
            start += len(text) + len(BETWEEN_TURNS)
        return found

    def _mark(self, turn: Passage, said: list[int], text: str, start: int, mark: tuple[int, int, int]) -> Typed:
        act, first, past = mark
        begins = min(len(text), len(self.speaker.text(said[: first - turn.first])))
        ends = min(len(text), len(self.speaker.text(said[: past - turn.first])))
        return Typed(act, start + begins, start + ends, first, past - first)


def _moved(pictures: Iterable[Shown], by: int) -> tuple[Shown, ...]:
    return tuple(replace(shown, first=shown.first + by, past=shown.past + by) for shown in pictures)
