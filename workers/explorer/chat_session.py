"""Weights in their own engine for chats, loaded in the background and kept while used."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from django.conf import settings
from jinja2 import TemplateError

from apps.policies.manifest import verify_folder
from apps.policies.transfer.weights_request import NotFetched
from apps.rollouts.models import ChatTurn
from workers import weight_folders
from workers.adapters import find_adapter_base
from workers.engines.choose import build_engine
from workers.engines.interface import Delta, Engine, EngineDied, Request, Sampling
from workers.explorer.chat_tokenizer import ChatTokenizer, IncrementalDetokenizer
from workers.explorer.chat_weights import ChatWeights
from workers.explorer.weights import UNFIT
from workers.gpu_turns import GpuTurn

SAID_EVERY = 0.15  # seconds between two writes of a growing answer
TOO_LONG = (
    "the conversation exceeds the policy's context; start a new one or send a shorter message"
)
State = ChatTurn.State
Loaded = tuple[Engine, ChatTokenizer]


@dataclass
class Answer:
    """A turn that the engine is writing."""

    turn: ChatTurn
    detokenizer: IncrementalDetokenizer
    text: str = ""
    tokens: int = 0
    saved: int = 0  # tokens saved in its row
    saved_at: float = 0.0
    is_stopping: bool = False


@dataclass
class ChatSession:
    """Chat session of a weight version, or of a model itself.

    Not thread-safe: only the explorer's loop uses it; only loading has its own thread. `turns`
    holds claimed turns that were not sent to the engine yet.
    """

    weights: ChatWeights
    engine: Engine | None = None
    chat_tokenizer: ChatTokenizer | None = None
    loading: Future[Loaded] | None = None
    turns: list[ChatTurn] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    used_at: float = field(default_factory=time.monotonic)
    requests: int = 0
    gpu: GpuTurn | None = None  # held until the engine is stopped
    is_left: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def take(cls, weights: ChatWeights) -> "ChatSession":
        """Start to load the weights in the background."""
        session = cls(weights)
        threads = ThreadPoolExecutor(1, thread_name_prefix="load chat")
        session.gpu = weights.gpu_turn()
        session.loading = threads.submit(_load, weights, session.gpu, session.is_left.is_set)
        threads.shutdown(wait=False)
        return session

    @property
    def is_ready(self) -> bool:
        return self.engine is not None

    @property
    def ready_engine(self) -> Engine:
        """Return the engine, once it is loaded."""
        assert self.engine is not None
        return self.engine

    @property
    def ready_tokenizer(self) -> ChatTokenizer:
        """Return the tokenizer, which is loaded with the engine."""
        assert self.chat_tokenizer is not None
        return self.chat_tokenizer

    @property
    def is_idle(self) -> bool:
        return self.is_ready and not self.turns and not self.answers

    @property
    def held(self) -> list[ChatTurn]:
        return [*self.turns, *(answer.turn for answer in self.answers.values())]

    def settle(self, timeout: float) -> None:
        """Take over the engine once it is loaded, waiting up to `timeout` seconds.

        Raises the error that stopped the load, EngineDied for an unexpected one.
        """
        if self.loading is None or not wait([self.loading], timeout).done:
            return
        loading = self.loading
        self.loading = None
        try:
            self.engine, self.chat_tokenizer = loading.result()
        except (*UNFIT, NotFetched, EngineDied):
            raise
        # out of memory, or a model that a library cannot load: it concerns these weights alone
        except Exception as error:
            raise EngineDied(f"{type(error).__name__}: {error}") from error

    def begin(self) -> None:
        """Send the claimed turns to the engine. Raises EngineDied."""
        while self.turns:
            turn = self.turns[0]  # held until the engine has it, as the engine may be dead
            try:
                request = self._request(turn)
                self.ready_engine.submit([request])
            except (
                ValueError,
                TemplateError,
            ) as why:
                # A template may refuse roles, a tokenizer a text.
                self.turns.pop(0)
                turn.fail(f"the policy cannot process this message: {why}")
            else:
                self.turns.pop(0)
                detokenizer = IncrementalDetokenizer(self.ready_tokenizer)
                self.answers[request.id] = Answer(turn, detokenizer)
                turn.begin()
        self.used_at = time.monotonic()

    def _request(self, turn: ChatTurn) -> Request:
        self.requests += 1
        prompt = self.ready_tokenizer.encode_prompt(turn.messages)
        sampling = Sampling(
            turn.max_tokens, turn.temperature, self.ready_tokenizer.stop_token_ids, turn.seed
        )
        return Request(f"chat-{turn.pk}.{self.requests}", prompt.token_ids, sampling)

    def collect(self, timeout: float) -> None:
        """Read the engine's output and save it. Raises EngineDied."""
        for delta in self.ready_engine.drain(timeout):
            if answer := self.answers.get(delta.request_id):
                self._hear(answer, delta)
        for request_id, answer in list(self.answers.items()):
            self._write_answer(request_id, answer)
        self.used_at = time.monotonic()

    def _hear(self, answer: Answer, delta: Delta) -> None:
        answer.text += answer.detokenizer.push(delta.token_ids)
        answer.tokens += len(delta.token_ids)
        if delta.stop_reason:
            del self.answers[delta.request_id]
            if delta.stop_reason == "error":
                answer.turn.fail(TOO_LONG)
            else:
                state = State.STOPPED if delta.stop_reason == "abort" else State.DONE
                answer.turn.end(state, answer.text, answer.tokens, delta.stop_reason)

    def _write_answer(self, request_id: str, answer: Answer) -> None:
        now = time.monotonic()
        if answer.tokens == answer.saved or now - answer.saved_at < SAID_EVERY:
            return
        answer.saved = answer.tokens
        answer.saved_at = now
        if not answer.turn.write(answer.text, answer.tokens):
            self._leave(request_id)

    def stop_those(self, turn_ids: set[int]) -> None:
        """End these turns (ids) with the text they have so far."""
        for turn in [turn for turn in self.turns if turn.pk in turn_ids]:
            self.turns.remove(turn)
            turn.end(State.STOPPED, stop_reason="abort")
        for request_id, answer in self.answers.items():
            if answer.turn.pk in turn_ids and not answer.is_stopping:
                answer.is_stopping = True
                self.ready_engine.abort([request_id])

    def leave_those(self, lost: set[int]) -> None:
        """Forget these turns, which another explorer holds now, without writing them."""
        self.turns = [turn for turn in self.turns if turn.pk not in lost]
        for request_id in [key for key, answer in self.answers.items() if answer.turn.pk in lost]:
            self._leave(request_id)

    def _leave(self, request_id: str) -> None:
        del self.answers[request_id]
        self.ready_engine.abort([request_id])

    def fail(self, reason: str) -> None:
        for turn in self.held:
            turn.fail(reason)
        self.turns = []
        self.answers = {}

    def stop(self) -> None:
        """Release its turns and free the engine.

        An engine that is still loading is freed afterwards.
        """
        self.is_left.set()
        for turn in self.held:
            turn.put_back()
        self.turns = []
        self.answers = {}
        if self.loading is not None:
            self.loading.add_done_callback(self._free_loaded)
        else:
            self._free(self.engine)

    def _free_loaded(self, loading: Future[Loaded]) -> None:
        is_loaded = not loading.cancelled() and loading.exception() is None
        self._free(loading.result()[0] if is_loaded else None)

    def _free(self, engine: Engine | None) -> None:
        if engine is not None:
            engine.stop()
        if self.gpu is not None:
            self.gpu.give_back()


def _load(weights: ChatWeights, gpu: GpuTurn | None, is_left: Callable[[], bool]) -> Loaded:
    """Load the weights: verify every byte and repeat the probe, as wherever weights are served.

    With `gpu`, which a trainer shares in turns, wait for the trainer's step.
    """
    if gpu is not None and not gpu.wait(is_left):
        raise EngineDied("the request for the GPU was withdrawn")
    with weight_folders.brought(weights.source, is_left) as folder:
        probe = verify_folder(folder).probe
        # Without the policy's size, so that a CPU answers with the transformers loop: it starts
        # half a minute sooner, which a chat gains more by than by tokens a second.
        engine, _ = build_engine(
            weights.engine,
            temperature=None,
            threads=settings.ENGINE_THREADS,
            vllm=weights.vllm,
            sees=weights.policy.sees_pictures,
            precision=weights.precision,
        )
        engine.start(folder, weights.number, probe)
        return engine, ChatTokenizer(find_adapter_base(folder) or folder)
