"""A rollout in flight: its text so far, and the weight version or person behind each token."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from apps.environments.action_sampling import NO_WISHES, ActionSampling
from apps.leases.lease import Claim
from apps.policies.manifest import ShownPicture
from apps.rollouts.models import Outcome
from apps.rollouts.payload import Tokens
from apps.rollouts.repeats import LoopWatch
from apps.rollouts.turns import BETWEEN_TURNS, POLICY, USER, Turn, TypedSpan
from apps.tasksets.selection import chance
from workers.engines.interface import Delta, Request, Sampling
from workers.explorer.chat_tokenizer import ChatTokenizer, EncodedEdit, IncrementalDetokenizer
from workers.explorer.rollout_plan import FollowUp, RolloutPlan
from workers.explorer.stopwatch import Stopwatch

FAILED = "error"


@dataclass
class InFlightTurn:
    """One turn while it is written.

    `typed` holds (the intervention, first token, one past its last), positions in the completion.
    `before` is the policy's text of the turn when a person first intervened.
    """

    role: str
    first: int
    text: str
    detokenizer: IncrementalDetokenizer
    typed: list[tuple[int, int, int]] = field(default_factory=list)
    before: str | None = None


@dataclass(eq=False)
class InFlightRollout:
    """Rollout that is being sampled.

    `token_ids`, `logprobs` (nats) and `mask` have one entry for each token after the prompt; the
    mask is 1 where the policy sampled the token. `segments` holds (first token, weight version).
    """

    rollout_id: int
    claim: Claim
    plan: RolloutPlan
    chat_tokenizer: ChatTokenizer
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    # Pictures after the prompt, with positions counted from its end.
    later_pictures: list[ShownPicture] = field(default_factory=list)
    turns: list[InFlightTurn] = field(default_factory=list)
    request_id: str = ""  # the current request; empty while held
    base: int = 0  # tokens at the start of that request
    held_until: float | None = None  # on the monotonic clock
    held_for: float = 0.0  # seconds, all holds together
    episode_id: int = 0  # the rollout's episode; 0 in a run without environment
    failure: str = ""  # why the rollout is unusable
    wishes: ActionSampling = NO_WISHES  # for the current turn
    has_stopped: bool = False  # a stop string has ended the turn
    watch: LoopWatch | None = None  # of the current turn
    is_looping: bool = False
    slices: int = 0  # slices before this one
    slice_ends: int | None = None  # token count at which the slice is over
    is_set_aside: bool = False  # its slice is over: it waits for the others of its group
    is_stored: bool = False  # stored in its current state
    clock: Stopwatch = field(default_factory=Stopwatch)
    seed: int = field(kw_only=True)  # unique among the rollouts of the run
    rewrites: int = 0  # how often a person rewrote a turn

    def __post_init__(self) -> None:
        self.clock.limit = self.plan.time_s
        self._begin_turn()
        self.begin_slice()

    def begin_slice(self) -> None:
        """Set the token count at which the slice that begins now will be over."""
        self.slice_ends = (
            None if self.plan.slice_tokens is None else len(self.token_ids) + self.plan.slice_tokens
        )

    @property
    def turn(self) -> InFlightTurn:
        """Return the current turn, or the last one once it has ended."""
        return self.turns[-1]

    @property
    def room(self) -> int:
        """Return how many tokens may still be added."""
        return self.plan.room - len(self.token_ids)

    @property
    def pictures(self) -> tuple[ShownPicture, ...]:
        """Return all pictures shown, with positions counted from the prompt's first token."""
        return (
            *self.plan.pictures,
            *_shift_pictures(self.later_pictures, len(self.plan.prompt_ids)),
        )

    @property
    def is_idle(self) -> bool:
        """Tell whether the rollout is neither requested from the engine nor held by a person."""
        return not self.request_id and self.held_until is None

    def next_request(
        self, request_id: str, temperature: float, is_awaited: bool = False
    ) -> Request:
        """Return the request that continues the rollout from everything so far."""
        self.request_id, self.base, self.held_until = request_id, len(self.token_ids), None
        self.is_set_aside = False
        spent = len(self.token_ids) - self.turn.first
        remaining = self.plan.max_tokens - len(self.token_ids)
        if self.slice_ends is not None:
            remaining = min(remaining, self.slice_ends - len(self.token_ids))
        if self.wishes.max_tokens is not None:
            # A person may have typed more than that.
            remaining = min(remaining, max(1, self.wishes.max_tokens - spent))
        sampling = Sampling(
            remaining, temperature, self.chat_tokenizer.stop_token_ids, self.request_seed
        )
        return Request(
            request_id,
            (*self.plan.prompt_ids, *self.token_ids),
            sampling,
            self.pictures,
            is_awaited,
        )

    @property
    def request_seed(self) -> int:
        """Return the seed of the next request: the caller's, or the rollout's own.

        After a person's rewrite it is another one, so that the policy continues differently.
        """
        if self.wishes.seed is not None:
            return self.wishes.seed
        return (
            chance.derive_seed("rewrite", self.seed, self.rewrites) if self.rewrites else self.seed
        )

    def rest(self, now: float) -> None:
        """Record that the engine no longer works on the rollout."""
        self.request_id = ""
        self.clock.stand(now)

    # -- slices

    @property
    def slice_is_over(self) -> bool:
        return self.slice_ends is not None and len(self.token_ids) >= self.slice_ends

    def is_cut_by_slice(self, stop_reason: str) -> bool:
        """Tell whether the engine stopped because the slice is over while the rollout is not."""
        return stop_reason == "length" and self.slice_is_over and self.room > 0

    def set_aside(self) -> None:
        self.request_id = ""
        self.held_until = None
        self.is_set_aside = True
        self.is_stored = False

    # -- output

    def take(self, delta: Delta) -> str:
        """Append the engine's output; return the text it adds.

        The token that completes a stop string is the last one taken: `has_stopped` is then true.
        Raises ValueError when tokens between are missing.
        """
        if self.base + delta.offset != len(self.token_ids):
            raise ValueError(
                f"rollout {self.rollout_id}: the engine continued at token "
                f"{self.base + delta.offset}, but {len(self.token_ids)} tokens are stored"
            )
        if delta.token_ids:
            self._sampled_by(delta.version)
        before = len(self.turn.text)
        one_by_one = self.wishes.has_stops
        for place, token_ids in enumerate(
            [(token,) for token in delta.token_ids] if one_by_one else [delta.token_ids]
        ):
            logprobs = delta.logprobs[place : place + 1] if one_by_one else delta.logprobs
            self._append(token_ids, logprobs, 1)
            if self.watch is not None:
                for token in token_ids:
                    self.is_looping |= self.watch.push(token) > 0
            self.turn.text += self.turn.detokenizer.push(token_ids)
            self.has_stopped = self.wishes.is_met_by(self.turn.text)
            if self.has_stopped:
                break
        return self.turn.text[before:]

    @property
    def is_cut_as_wished(self) -> bool:
        """Tell whether the turn has all the tokens asked for and the rollout has room for more."""
        return (
            self.wishes.max_tokens is not None
            and len(self.token_ids) - self.turn.first >= self.wishes.max_tokens
            and self.room > 0
        )

    def append_next_message(self) -> FollowUp | None:
        """Append the user's next message after a finished policy turn, and return it.

        Returns None when there is none, or no room for an answer.
        """
        user_turns = sum(turn.role == USER for turn in self.turns)
        if user_turns == len(self.plan.follow_ups):
            return None
        return self.append_message(self.plan.follow_ups[user_turns])

    def append_message(self, follow_up: FollowUp) -> FollowUp | None:
        """Append this message after a finished policy turn, and return it.

        Return None, and append nothing, when it leaves no room for an answer.

        Where the turn was ended for the policy, its stop token is put before the message: the
        template has one there.
        """
        ended = self.token_ids[-1:] and self.token_ids[-1] in self.chat_tokenizer.stop_token_ids
        if not ended:
            stop = self.chat_tokenizer.stop_token_ids[:1]
            follow_up = replace(
                follow_up,
                token_ids=(*stop, *follow_up.token_ids),
                pictures=_shift_pictures(follow_up.pictures, len(stop)),
            )
        if len(follow_up.token_ids) >= self.room:
            return None
        self.turns.append(
            InFlightTurn(
                USER,
                len(self.token_ids),
                follow_up.text,
                IncrementalDetokenizer(self.chat_tokenizer),
            )
        )
        self.later_pictures += _shift_pictures(follow_up.pictures, len(self.token_ids))
        self._append(follow_up.token_ids, (0.0,) * len(follow_up.token_ids), 0)
        self._begin_turn()
        return follow_up

    @property
    def is_cut_short(self) -> bool:
        """Tell whether the user has further messages."""
        return sum(turn.role == USER for turn in self.turns) < len(self.plan.follow_ups)

    def drop_unanswered(self) -> None:
        """Remove a final user message that the policy has not begun to answer."""
        if len(self.turns) > 1 and self.turn.first == len(self.token_ids):
            self.turns.pop()
            self._cut(self.turns.pop().first)

    def version_at(self, place: int) -> int | None:
        """Return the weight version that sampled the token at this position of the completion."""
        return next((version for start, version in reversed(self.segments) if start <= place), None)

    def turn_logprobs(self) -> list[tuple[str, list[int], float]]:
        """Return (text, bytes, logprob) of each token of the turn, without its stop token.

        Logprobs are in nats; 0 for typed tokens.
        """
        sampled_ids = self.turn_tokens(len(self.turns) - 1)
        if sampled_ids and sampled_ids[-1] in self.chat_tokenizer.stop_token_ids:
            sampled_ids.pop()
        logprobs = self.logprobs[self.turn.first :]
        return [
            (*token_text, logprob)
            for token_text, logprob in zip(
                self.chat_tokenizer.token_texts(sampled_ids), logprobs, strict=False
            )
        ]

    # -- interventions

    def turn_tokens(self, number: int) -> list[int]:
        """Return the tokens of a turn."""
        turn = self.turns[number]
        past = self.turns[number + 1].first if number + 1 < len(self.turns) else len(self.token_ids)
        return self.token_ids[turn.first : past]

    def rewrite(self, number: int, edit: EncodedEdit, intervention_id: int, version: int) -> None:
        """Replace policy turn `number` by this text, and drop the turns after it.

        Typed tokens are no samples: their mask and logprob are 0.
        """
        turn = self.turns[number]
        self.rewrites += 1
        del self.turns[number + 1 :]
        turn.before = turn.text if turn.before is None else turn.before
        self._watch_anew()
        self._cut(turn.first + edit.kept)
        self._type(edit.token_ids, intervention_id, version)
        turn.text, turn.detokenizer = edit.text, IncrementalDetokenizer(self.chat_tokenizer)
        turn.detokenizer.push(tuple(self.turn_tokens(number)))

    def end_turn(self, intervention_id: int, version: int) -> None:
        """End the turn that a person typed with its stop token, marked as typed."""
        self._type(self.chat_tokenizer.stop_token_ids[:1], intervention_id, version)

    def _type(self, token_ids: Sequence[int], intervention_id: int, version: int) -> None:
        if not token_ids:
            return
        if not self.segments:
            self._sampled_by(version)  # sampled while this version served
        first = len(self.token_ids)
        self._append(token_ids, (0.0,) * len(token_ids), 0)
        marks = self.turn.typed
        if marks and marks[-1][0] == intervention_id and marks[-1][2] == first:
            first = marks.pop()[1]
        marks.append((intervention_id, first, len(self.token_ids)))

    # -- the arrays

    def _begin_turn(self) -> None:
        self.turns.append(
            InFlightTurn(
                POLICY, len(self.token_ids), "", IncrementalDetokenizer(self.chat_tokenizer)
            )
        )
        self._watch_anew()

    def _watch_anew(self) -> None:
        """Restart loop detection: at a new turn, or after the text that a person wrote."""
        self.watch = LoopWatch(*self.plan.repeats) if self.plan.repeats else None
        self.is_looping = False

    def watch_on(self) -> None:
        """Restart loop detection after a resume, looking as far back as a loop may reach."""
        self._watch_anew()
        if self.watch and self.plan.repeats:
            period, times, tokens = self.plan.repeats
            far = len(self.token_ids) - max(times * period, tokens)
            for token in self.token_ids[
                max(far, self.turn.first, *(past for _, _, past in self.turn.typed)) :
            ]:
                self.watch.push(token)

    def _append(self, token_ids: Sequence[int], logprobs: Sequence[float], mask: int) -> None:
        self.token_ids += token_ids
        self.logprobs += logprobs
        self.mask += [mask] * len(token_ids)

    def _sampled_by(self, version: int) -> None:
        if not self.segments or self.segments[-1][1] != version:
            self.segments.append((len(self.token_ids), version))

    def _cut(self, length: int) -> None:
        """Remove the tokens from this position on, and all data about them."""
        del self.token_ids[length:], self.logprobs[length:], self.mask[length:]
        self.segments = [(start, version) for start, version in self.segments if start < length]
        self.later_pictures = [picture for picture in self.later_pictures if picture.past <= length]
        last = self.turn
        last.typed = [
            (intervention, start, min(past, length))
            for intervention, start, past in last.typed
            if start < length
        ]

    # -- results

    def outcome(self, stop_reason: str) -> Outcome:
        """Return the result of the rollout: its tokens, or a failure without any."""
        if self.failure:
            return Outcome(self.rollout_id, None, "", self.failure)
        if stop_reason == FAILED or not self.token_ids:
            return Outcome(
                self.rollout_id, None, "", f"the engine returned nothing ({stop_reason})"
            )
        tokens = Tokens(
            self.plan.prompt_ids,
            tuple(self.token_ids),
            tuple(self.logprobs),
            tuple(self.mask),
            tuple(self.segments),
            tuple(
                (sha256(picture.png).hexdigest(), picture.first, picture.past)
                for picture in self.pictures
            ),
        )
        turns = self._turns()
        is_plain = len(turns) == 1 and not turns[0].typed
        text = BETWEEN_TURNS.join(turn.text for turn in turns)
        return Outcome(self.rollout_id, tokens, text, stop_reason, () if is_plain else tuple(turns))

    def _turns(self) -> list[Turn]:
        turns = []
        start = 0
        for number, turn in enumerate(self.turns):
            ids = self.turn_tokens(number)
            text = turn.text if turn.role == USER else self.chat_tokenizer.text(ids)
            typed = tuple(self._mark(turn, ids, text, start, mark) for mark in turn.typed)
            turns.append(Turn(turn.role, text, start, turn.first, len(ids), typed))
            start += len(text) + len(BETWEEN_TURNS)
        return turns

    def _mark(
        self, turn: InFlightTurn, ids: list[int], text: str, start: int, mark: tuple[int, int, int]
    ) -> TypedSpan:
        intervention, first, past = mark
        before = self.chat_tokenizer.text(ids[: first - turn.first])
        until_end = self.chat_tokenizer.text(ids[: past - turn.first])
        begins = min(len(text), len(before))
        ends = min(len(text), len(until_end))
        return TypedSpan(intervention, start + begins, start + ends, first, past - first)


def _shift_pictures(pictures: Iterable[ShownPicture], by: int) -> tuple[ShownPicture, ...]:
    return tuple(
        replace(picture, first=picture.first + by, past=picture.past + by) for picture in pictures
    )
