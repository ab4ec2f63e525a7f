"""A weight version in an engine of its own, for those who chat with it: loaded beside what goes on, kept while it is asked."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from django.conf import settings
from jinja2 import TemplateError

from apps.policies.manifest import verify
from apps.policies.transfer.wanted import NotFetched
from apps.rollouts.models import ChatTurn
from apps.runs.models import WeightVersion
from workers import weight_folders
from workers.adapters import base_of
from workers.engines.choose import build
from workers.engines.interface import Delta, Engine, EngineDied, Request, Sampling
from workers.explorer.speaker import Speaker, Typist
from workers.explorer.weights import UNFIT

SAID_EVERY = 0.15  # seconds between two writes of a growing answer
TOO_LONG = "the conversation is longer than the policy can read; begin a new one, or say less"
State = ChatTurn.State


@dataclass
class Answer:
    """A turn while the engine writes it."""

    turn: ChatTurn
    typist: Typist
    text: str = ""
    tokens: int = 0
    told: int = 0  # tokens that its row has
    told_at: float = 0.0
    is_stopping: bool = False


@dataclass
class Chair:
    """Not thread-safe: the explorer's loop is its only user; only the loading has a thread of its own.

    `turns`: claimed, and not yet sent to the engine.
    """

    version: WeightVersion
    engine: Engine | None = None
    speaker: Speaker | None = None
    loading: Future | None = None
    turns: list[ChatTurn] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    used_at: float = field(default_factory=time.monotonic)
    requests: int = 0
    is_left: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def take(cls, version: WeightVersion) -> "Chair":
        """Begin to load; the loop goes on meanwhile."""
        chair, threads = cls(version), ThreadPoolExecutor(1, thread_name_prefix="load chat")
        run, plan = version.run, version.run.settings
        sees = run.policy.sees_pictures
        chair.loading = threads.submit(
            _load, version, plan.engine, plan.precision.engine, sees, chair.is_left.is_set
        )
        threads.shutdown(wait=False)
        return chair

    @property
    def is_ready(self) -> bool:
        return self.engine is not None

    @property
    def is_idle(self) -> bool:
        return self.is_ready and not self.turns and not self.answers

    @property
    def held(self) -> list[ChatTurn]:
        return [*self.turns, *(answer.turn for answer in self.answers.values())]

    def settle(self, timeout: float) -> None:
        """Take the loaded engine over, once it is; waits for it so long. Raises what refused it, EngineDied for the unforeseen."""
        if self.loading is None or not wait([self.loading], timeout).done:
            return
        loading, self.loading = self.loading, None
        try:
            self.engine, self.speaker = loading.result()
        except (*UNFIT, NotFetched, EngineDied):
            raise
        except Exception as error:  # no memory, a model that a library stumbles over: it belongs to this version alone
            raise EngineDied(f"{type(error).__name__}: {error}") from error

    def begin(self) -> None:
        """Send what was claimed to the engine. Raises EngineDied."""
        turns, self.turns = self.turns, []
        for turn in turns:
            try:
                request = self._request(turn)
                self.engine.submit([request])
            except (ValueError, TemplateError) as why:  # a template may refuse roles, a tokenizer what was typed
                turn.fail(f"the policy cannot be asked this: {why}")
            else:
                turn.begin()
                self.answers[request.id] = Answer(turn, Typist(self.speaker))
        self.used_at = time.monotonic()

    def _request(self, turn: ChatTurn) -> Request:
        self.requests += 1
        spelt = self.speaker.prompt(turn.messages)
        sampling = Sampling(turn.max_tokens, turn.temperature, self.speaker.stop_token_ids, turn.seed)
        return Request(f"chat-{turn.pk}.{self.requests}", spelt.token_ids, sampling)

    def collect(self, timeout: float) -> None:
        """Take the engine's news and write it down. Raises EngineDied."""
        for delta in self.engine.drain(timeout):
            if answer := self.answers.get(delta.request_id):
                self._hear(answer, delta)
        for request_id, answer in list(self.answers.items()):
            self._tell(request_id, answer)
        self.used_at = time.monotonic()

    def _hear(self, answer: Answer, delta: Delta) -> None:
        answer.text += answer.typist.push(delta.token_ids)
        answer.tokens += len(delta.token_ids)
        if delta.stop_reason:
            del self.answers[delta.request_id]
            if delta.stop_reason == "error":
                answer.turn.fail(TOO_LONG)
            else:
                state = State.STOPPED if delta.stop_reason == "abort" else State.DONE
                answer.turn.end(state, answer.text, answer.tokens, delta.stop_reason)

    def _tell(self, request_id: str, answer: Answer) -> None:
        now = time.monotonic()
        if answer.tokens == answer.told or now - answer.told_at < SAID_EVERY:
            return
        answer.told, answer.told_at = answer.tokens, now
        if not answer.turn.write(answer.text, answer.tokens):
            self._leave(request_id)

    def stop_those(self, wanted: set[int]) -> None:
        """End these turns (ids) with what they have said."""
        for turn in [turn for turn in self.turns if turn.pk in wanted]:
            self.turns.remove(turn)
            turn.end(State.STOPPED, stop_reason="abort")
        for request_id, answer in self.answers.items():
            if answer.turn.pk in wanted and not answer.is_stopping:
                answer.is_stopping = True
                self.engine.abort([request_id])

    def leave_those(self, lost: set[int]) -> None:
        """Another explorer holds these turns now: write nothing of them."""
        self.turns = [turn for turn in self.turns if turn.pk not in lost]
        for request_id in [key for key, answer in self.answers.items() if answer.turn.pk in lost]:
            self._leave(request_id)

    def _leave(self, request_id: str) -> None:
        del self.answers[request_id]
        self.engine.abort([request_id])

    def fail(self, reason: str) -> None:
        for turn in self.held:
            turn.fail(reason)
        self.turns, self.answers = [], {}

    def stop(self) -> None:
        """Give its turns to others and free the engine; one that is still being loaded is freed when it is there."""
        self.is_left.set()
        for turn in self.held:
            turn.give_back()
        self.turns, self.answers = [], {}
        if self.engine is not None:
            self.engine.stop()
        elif self.loading is not None:
            self.loading.add_done_callback(_free)


def _load(
    version: WeightVersion, choice: str, precision: str, sees: bool, is_left: Callable[[], bool]
) -> tuple[Engine, Speaker]:
    """Every byte is read and the probe repeated, as wherever weights are served."""
    memory = settings.GPU_MEMORY_PERCENT / 100
    with weight_folders.brought(version, is_left) as folder:
        probe = verify(folder).probe
        engine, _ = build(
            choice,
            temperature=None,
            threads=settings.ENGINE_THREADS,
            memory_share=memory,
            sees=sees,
            precision=precision,
        )
        engine.start(folder, version.version, probe)
        return engine, Speaker(base_of(folder) or folder)


def _free(loading: Future) -> None:
    if not loading.cancelled() and loading.exception() is None:
        loading.result()[0].stop()
