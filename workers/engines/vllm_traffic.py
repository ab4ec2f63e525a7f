"""Requests on their way through vLLM; lives on the engine's event loop.

A request is vLLM's for one stretch of weights. Before an update every stretch is ended, keeping its tokens; after it
the request is sent again with its tokens so far as prompt. So no token's version is in doubt, nothing computed by old
weights is reused, and the probe of new weights runs alone.

Names relied on in vLLM 0.32: `AsyncLLM.add_request` and the collector it returns (`get_nowait`, `request_id`), `generate`,
`abort(internal=)`, `errored`, `dead_error`, `pause_generation(mode="abort", clear_cache=)`, `resume_generation`; in an output
`outputs[0]` with `token_ids`, `logprobs`, `finish_reason`, `weight_versions`, and `prompt_logprobs`.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from apps.policies.manifest import Shown
from workers.engines.interface import Delta, EngineDied, Request, StopReason
from workers.engines.noise import stretch_seed
from workers.engines.outbox import Outbox
from workers.engines.vllm_pictures import prompt_of
from workers.vision.eyes import Eyes

STOP_REASONS: dict[str, StopReason] = {"stop": "stop", "length": "length", "abort": "abort"}
LOOK_SECONDS, IDLE_LOOK_SECONDS = 0.02, 0.5
SETTLE_SECONDS = 0.002


@dataclass
class Flight:
    """One request; `stretch` is vLLM's collector of its outputs while vLLM has it."""

    request: Request
    seed: int
    said: list[int] = field(default_factory=list)
    stretch: Any = None


class Traffic:
    """Not thread-safe: everything here runs on the event loop."""

    def __init__(self, llm: AsyncLLM, outbox: Outbox, eyes: Eyes | None = None) -> None:
        self.llm, self.outbox, self.eyes = llm, outbox, eyes
        self.version: int | None = None
        self.flights: dict[str, Flight] = {}
        self.under_way = asyncio.Event()
        self.suspended = False
        self._numbers = count()

    async def send(self, flight: Flight) -> None:
        """Hand a request to vLLM, from where it is; one that leaves no room for a reply ends with an error."""
        prompt_ids = [*flight.request.prompt_ids, *flight.said]
        room = self.llm.model_config.max_model_len - len(prompt_ids)
        if room < 1:
            self.outbox.put([Delta(flight.request.id, 0, (), (), self.version, "error")])
            return
        self.flights[flight.request.id] = flight
        parameters = _parameters(flight, room)
        prompt = prompt_of(prompt_ids, flight.request.pictures, self.eyes)
        flight.stretch = await self.llm.add_request(self._name(flight.request.id), prompt, parameters)
        self.under_way.set()

    async def look_for_ever(self) -> None:
        """Collect what was sampled, many times a second while there is any; raises vLLM's death, also while it is idle."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_LOOK_SECONDS):
                    await self.under_way.wait()
            if self.llm.errored:
                raise self.llm.dead_error
            self.look()
            if not self.flights:
                self.under_way.clear()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Put everything that vLLM has collected by now into the outbox."""
        stretched = [flight for flight in self.flights.values() if flight.stretch is not None]
        news = [(flight, flight.stretch.get_nowait()) for flight in stretched]
        self.outbox.put([self._take(flight, output) for flight, output in news if output is not None])

    async def abort(self, ids: list[str]) -> None:
        """End these requests, with the tokens that have come by now."""
        named = [self.flights[request_id] for request_id in ids if request_id in self.flights]
        await self.llm.abort([flight.stretch.request_id for flight in named if flight.stretch], internal=True)
        self.look()

    async def suspend(self) -> None:
        """End all stretches and forget what was computed; returns when every token has been collected."""
        self.suspended = True
        await self.llm.pause_generation(mode="abort", clear_cache=True)
        while any(flight.stretch for flight in self.flights.values()):
            self.look()
            await asyncio.sleep(SETTLE_SECONDS)

    async def go_on(self) -> None:
        """Send again what was suspended."""
        self.suspended = False
        for flight in list(self.flights.values()):
            await self.send(flight)

    async def probe(self, token_ids: tuple[int, ...], pictures: tuple[Shown, ...] = ()) -> list[float]:
        """Logprob at temperature 1 of each token given those before it. Raises ValueError where vLLM reads another text."""
        asked = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY)
        async for output in self.llm.generate(prompt_of(token_ids, pictures, self.eyes), asked, self._name("probe")):
            scored = output.prompt_logprobs
            if tuple(output.prompt_token_ids) != tuple(token_ids):
                raise ValueError("vllm spreads the probe's pictures over other tokens than the policy's own processor")
        return [entry[token].logprob for token, entry in zip(token_ids[1:], scored[1:], strict=True)]

    def _take(self, flight: Flight, output: Any) -> Delta:
        said = output.outputs[0]
        token_ids = tuple(said.token_ids)
        logprobs = tuple(entry[token].logprob for token, entry in zip(token_ids, said.logprobs or (), strict=True))
        stop_reason = self._stop_reason(output.finished, said)
        delta = Delta(flight.request.id, len(flight.said), token_ids, logprobs, self.version, stop_reason)
        flight.said += token_ids
        if output.finished:
            self._require_version(said)
            flight.stretch = None
        if delta.stop_reason:
            del self.flights[flight.request.id]
        return delta

    def _stop_reason(self, finished: bool, said: Any) -> StopReason | None:
        if not finished or (self.suspended and said.finish_reason == "abort"):
            return None
        return STOP_REASONS.get(said.finish_reason, "error")

    def _require_version(self, said: Any) -> None:
        """vLLM keeps its own account of which version sampled which tokens; ours must be the same."""
        reported = {span.version for span in said.weight_versions or ()}
        if reported - {str(self.version)}:
            raise EngineDied(f"tokens thought to be of weight version {self.version} were sampled by {sorted(reported)}")

    def _name(self, request_id: str) -> str:
        return f"{request_id}/{next(self._numbers)}"


def _parameters(flight: Flight, room: int) -> SamplingParams:
    """Plain sampling: no truncation, no penalties, the model's own end tokens only if the request names them.

    `room`: tokens that the model's context has left.
    """
    asked = flight.request.sampling
    return SamplingParams(
        max_tokens=min(asked.max_tokens - len(flight.said), room),
        temperature=asked.temperature,
        top_p=1.0,
        top_k=0,
        # vLLM's generator begins anew with each stretch: the same numbers must not come twice.
        seed=stretch_seed(flight.seed, len(flight.request.prompt_ids) + len(flight.said)),
        stop_token_ids=list(asked.stop_token_ids),
        ignore_eos=True,
        logprobs=0,  # of the sampled token alone
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
