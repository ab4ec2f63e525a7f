"""Run an embedded engine: transformers' model in a loop with continuous batching.

It starts in seconds, needs half a gigabyte and no GPU, and is as fast as any engine at the size of
the demo. Names used from transformers are listed at the top of `kv_cache` and `live_policy`;
`decoding` calls `module(input_ids, attention_mask (4 dimensions, True = seen), position_ids,
past_key_values, use_cache).logits` and `module.base_model(…)`.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from apps.policies.manifest import ShownPicture
from workers.engines.decoding import Decoder
from workers.engines.delta_queue import DeltaQueue
from workers.engines.interface import (
    COLDEST,
    Delta,
    EngineDied,
    Health,
    LoadReport,
    ProbeLike,
    Request,
)
from workers.engines.live_policy import LivePolicy
from workers.engines.parity import Parity, require_parity
from workers.vision.image_processor import require_image_processor

Answer = TypeVar("Answer")
NEWS_SECONDS = 0.03
NOT_STARTED = "the engine was not started"
STOPPED = "the engine was stopped"


class _Refused(Exception):
    """Raised when a version was not taken into service; the caller gets the cause.

    The engine continues with the old version.
    """


@dataclass
class _Wish(Generic[Answer]):
    """Request of another thread that the engine's thread carries out between two steps."""

    call: Callable[[Decoder], Answer]
    answer: Future[Answer]


class TransformersEngine:
    """Engine with one model in one permanent thread; any thread may call its public methods.

    With a `temperature`, every request must have it; it may be changed for later requests. With
    None, each request has its own. `seed` numbers the requests that bring no seed; None gives those
    requests random seeds. `precision` is the number format of the computation, or "auto" (see
    `workers.precision`).
    """

    name = "transformers"

    def __init__(
        self,
        temperature: float | None,
        seed: int | None = None,
        threads: int = 1,
        precision: str = "auto",
    ) -> None:
        if temperature is not None and not temperature > 0:
            raise ValueError(f"temperature must be above 0, not {temperature}")
        self.temperature = temperature
        self.seed = seed
        self.threads = threads
        self.precision = precision
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._gate = (
            threading.Lock()
        )  # between asking and dying: whoever asked before gets an answer
        self._wishes: queue.SimpleQueue[_Wish[Any]] = queue.SimpleQueue()
        self._outbox = DeltaQueue()
        self._thread: threading.Thread | None = None
        self._policy: LivePolicy | None = None
        self._death: str | None = NOT_STARTED
        self._stopping = False

    # -- public methods

    def start(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Load the first weights and begin to serve.

        Raises ParityError, or the error of reading the weights; then nothing is served.
        """
        if self._death != NOT_STARTED:
            raise EngineDied(self._death or "the engine is already started")
        started: Future[LoadReport] = Future()
        thread = threading.Thread(
            target=self._live,
            args=(folder, version, probe, started),
            name="rollout-engine",
            daemon=True,
        )
        thread.start()
        self._thread = thread
        return started.result()

    def load(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Replace the weights between two steps; after an error the old ones stay in service."""
        return self._ask(lambda decoder: self._exchange(decoder, folder, version, probe)).result()

    def submit(self, requests: list[Request]) -> None:
        """Queue requests; raises ValueError for a request that can never be served."""
        for request in requests:
            self._require_servable(request)
        self._outbox.expect([request.id for request in requests])
        self._ask(lambda decoder: decoder.enqueue(requests))

    def drain(self, timeout: float) -> list[Delta]:
        """Return all output since the last call.

        Waits up to `timeout` seconds for the first output.
        """
        if self._death == NOT_STARTED:
            raise EngineDied(NOT_STARTED)
        return self._outbox.take(timeout)

    def abort(self, ids: list[str]) -> None:
        """End these requests; unknown ids and a dead engine are ignored."""
        try:
            self._ask(lambda decoder: decoder.abort(set(ids)))
        except EngineDied:
            return

    def probe_logprobs(
        self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...] = ()
    ) -> list[float]:
        """Return each token's logprob, but the first's, under the live weights at temperature 1."""
        self._require_text(token_ids)
        self._require_seen(token_ids, pictures)
        return self._ask(
            lambda decoder: decoder.policy.probe_logprobs(token_ids, pictures)
        ).result()

    def fingerprint(self) -> str:
        """Return the manifest's fingerprint of the weights in service."""
        return self._living().fingerprint

    def health(self, deadline_s: float) -> Health:
        """Ask the thread for a sign of life; never raises."""
        version = self._policy.version if self._policy else None
        try:
            self._ask(lambda decoder: None).result(deadline_s)
            return Health(True, version, self.in_flight(), "serving")
        except EngineDied as death:
            return Health(False, version, 0, str(death))
        except TookTooLong:
            return Health(False, version, self.in_flight(), f"no answer within {deadline_s} s")

    def in_flight(self) -> int:
        """Return how many requests are submitted and not ended."""
        return self._outbox.in_flight()

    def stop(self) -> None:
        """End the thread and free the model; may be called twice."""
        with self._gate:
            self._stopping = True
            self._wishes.put(_Wish(lambda decoder: None, Future()))  # wakes the thread
        if self._thread is not None:
            self._thread.join()
        self._die(STOPPED)
        self._policy = None

    # -- requests to the thread

    def _ask(self, call: Callable[[Decoder], Answer]) -> Future[Answer]:
        wish = _Wish(call, Future())
        with self._gate:
            self._living()
            self._wishes.put(wish)
        return wish.answer

    def _living(self) -> LivePolicy:
        if self._death is not None or self._policy is None:
            raise EngineDied(self._death or NOT_STARTED)
        return self._policy

    def _require_servable(self, request: Request) -> None:
        self._require_text(request.prompt_ids)
        self._require_seen(request.prompt_ids, request.pictures)
        sampling = request.sampling
        if self.temperature is None and not sampling.temperature >= COLDEST:
            raise ValueError(
                f"request {request.id}: temperature must be {COLDEST} or more, not"
                f" {sampling.temperature}"
            )
        if self.temperature not in (None, sampling.temperature):
            raise ValueError(
                f"request {request.id}: temperature must be {self.temperature} for this "
                f"engine, not {sampling.temperature}"
            )
        if sampling.max_tokens < 1:
            raise ValueError(f"request {request.id}: max_tokens must be 1 or more")

    def _require_text(self, token_ids: tuple[int, ...]) -> None:
        vocabulary = self._living().vocabulary
        if not token_ids or min(token_ids) < 0 or max(token_ids) >= vocabulary:
            raise ValueError(f"text is one or more token ids below {vocabulary}")

    def _require_seen(self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...]) -> None:
        """Raise ValueError if the pictures cannot be read, before the engine's thread gets them.

        An error in that thread would end it.
        """
        if pictures:
            require_image_processor(self._living().image_processor).require(token_ids, pictures)

    # -- the thread

    def _live(
        self, folder: Path, version: int, probe: ProbeLike, started: Future[LoadReport]
    ) -> None:
        torch.set_num_threads(self.threads)
        with torch.inference_mode():
            decoder = self._begin(folder, version, probe, started)
            if decoder is None:
                return
            try:
                self._serve(decoder)
                self._die(STOPPED)
            except Exception as error:
                self._die(f"{type(error).__name__}: {error}")

    def _begin(
        self, folder: Path, version: int, probe: ProbeLike, started: Future[LoadReport]
    ) -> Decoder | None:
        begun = time.monotonic()
        try:
            policy, gap = self._prove(folder, version, probe)
            decoder = Decoder(policy, self.seed)
        except Exception as error:
            started.set_exception(error)
            return None
        self._policy = policy
        self._death = None
        started.set_result(_report(policy, gap, begun))
        return decoder

    def _serve(self, decoder: Decoder) -> None:
        """Run decoding steps, and handle requests of other threads between them, until stopped."""
        delivered = time.monotonic()
        while not self._stopping:
            self._grant_wishes(decoder)
            decoder.step()
            is_due = time.monotonic() - delivered > NEWS_SECONDS
            if is_due or decoder.has_awaited_end or not decoder.busy:
                self._outbox.put(decoder.take_news())
                delivered = time.monotonic()

    def _grant_wishes(self, decoder: Decoder) -> None:
        """Carry out the requests of other threads.

        Wait for one while there is nothing to generate.
        """
        wait = not decoder.busy
        while True:
            try:
                wish = self._wishes.get(block=wait)
            except queue.Empty:
                return
            self._grant(wish, decoder)
            wait = False

    def _grant(self, wish: _Wish[Any], decoder: Decoder) -> None:
        try:
            wish.answer.set_result(wish.call(decoder))
        except _Refused as refusal:
            wish.answer.set_exception(refusal.__cause__)
        except Exception as error:
            wish.answer.set_exception(EngineDied(f"{type(error).__name__}: {error}"))
            raise

    def _exchange(
        self, decoder: Decoder, folder: Path, version: int, probe: ProbeLike
    ) -> LoadReport:
        begun = time.monotonic()
        try:
            policy, gap = self._prove(folder, version, probe)
            decoder.policy.require_same_model(policy)
        except Exception as error:
            raise _Refused from error
        decoder.exchange(policy)
        self._policy = policy
        return _report(policy, gap, begun)

    def _prove(self, folder: Path, version: int, probe: ProbeLike) -> tuple[LivePolicy, Parity]:
        """Read a version and check it against its probe; return it with the gaps."""
        policy = LivePolicy.read(Path(folder), version, self.device, self.precision)
        measured = policy.probe_logprobs(probe.token_ids, probe.pictures)
        return policy, require_parity(measured, probe, policy.precision)

    def _die(self, reason: str) -> None:
        """End the service for this reason; callers that wait for an answer get EngineDied."""
        with self._gate:
            if self._death not in (None, NOT_STARTED):
                return
            self._death = reason
        self._outbox.close(reason)
        while not self._wishes.empty():
            wish = self._wishes.get()
            if not wish.answer.done():
                wish.answer.set_exception(EngineDied(reason))


def _report(policy: LivePolicy, gap: Parity, begun: float) -> LoadReport:
    milliseconds = (time.monotonic() - begun) * 1000
    return LoadReport(policy.version, policy.fingerprint, gap.trainer, milliseconds, gap.alike)
