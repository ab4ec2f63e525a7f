"""Send requests through vLLM and collect its output, on the engine's event loop.

vLLM gets a request for one stretch: the time during which one weight version is served. Before an
update, every stretch is ended and its tokens are kept. After the update, the request is sent again
with its tokens so far as prompt. So the version of each token is known, nothing computed by old
weights is reused, and the parity check of new weights runs alone.

Names used from vLLM 0.32: `AsyncLLM.add_request(lora_request=)` and the collector it returns
(`get_nowait`, `request_id`), `generate(lora_request=)`, `abort(internal=)`, `errored`,
`dead_error`, `pause_generation(mode="abort", clear_cache=)`, `resume_generation`; in an output
`outputs[0]` with `token_ids`, `logprobs`, `finish_reason`, `weight_versions`, and
`prompt_logprobs`.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from apps.policies.manifest import ShownPicture
from workers.engines.delta_queue import DeltaQueue
from workers.engines.interface import Delta, EngineDied, Request, StopReason
from workers.engines.random_numbers import stretch_seed
from workers.engines.vllm_pictures import build_vllm_prompt
from workers.vision.image_processor import ImageProcessor

STOP_REASONS: dict[str, StopReason] = {"stop": "stop", "length": "length", "abort": "abort"}
LOOK_SECONDS = 0.02
IDLE_LOOK_SECONDS = 0.5
SETTLE_SECONDS = 0.002


@dataclass
class InFlightRequest:
    """Request in flight.

    `sampled`: the tokens sampled so far. `stretch`: vLLM's collector of outputs; None while vLLM
    does not have the request.
    """

    request: Request
    seed: int
    sampled: list[int] = field(default_factory=list)
    stretch: Any = None


class InFlightRequests:
    """Requests in flight; not thread-safe: all methods run on the event loop."""

    def __init__(
        self, llm: AsyncLLM, outbox: DeltaQueue, image_processor: ImageProcessor | None = None
    ) -> None:
        self.llm = llm
        self.outbox = outbox
        self.image_processor = image_processor
        self.version = 0  # the version in service, once it is proved
        self.adapter: LoRARequest | None = None  # how vLLM names the version, if it is an adapter
        self.requests: dict[str, InFlightRequest] = {}
        self.under_way = asyncio.Event()
        self.suspended = False
        self._numbers = count()

    async def send(self, in_flight: InFlightRequest) -> None:
        """Send a request to vLLM, with the tokens sampled so far.

        A request that leaves no room for a reply ends with stop reason "error".
        """
        prompt_ids = [*in_flight.request.prompt_ids, *in_flight.sampled]
        room = self.llm.model_config.max_model_len - len(prompt_ids)
        if room < 1:
            self.outbox.put([Delta(in_flight.request.id, 0, (), (), self.version, "error")])
            return
        self.requests[in_flight.request.id] = in_flight
        if self.suspended:
            return  # `go_on` sends it
        parameters = _parameters(in_flight, room)
        prompt = build_vllm_prompt(prompt_ids, in_flight.request.pictures, self.image_processor)
        name = self._name(in_flight.request.id)
        in_flight.stretch = await self.llm.add_request(
            name, prompt, parameters, lora_request=self.adapter
        )
        self.under_way.set()

    async def look_for_ever(self) -> None:
        """Collect sampled tokens many times a second while there are requests.

        Raises vLLM's error when vLLM dies, even while there are no requests.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_LOOK_SECONDS):
                    await self.under_way.wait()
            if self.llm.errored:
                raise self.llm.dead_error
            self.look()
            if not self.requests:
                self.under_way.clear()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Put everything that vLLM has sampled by now into the outbox."""
        stretched = [
            in_flight for in_flight in self.requests.values() if in_flight.stretch is not None
        ]
        news = [(in_flight, in_flight.stretch.get_nowait()) for in_flight in stretched]
        self.outbox.put(
            [self._take(in_flight, output) for in_flight, output in news if output is not None]
        )

    async def abort(self, ids: list[str]) -> None:
        """End these requests, with the tokens sampled by now."""
        requests = [self.requests[request_id] for request_id in ids if request_id in self.requests]
        await self.llm.abort(
            [in_flight.stretch.request_id for in_flight in requests if in_flight.stretch],
            internal=True,
        )
        self.look()
        for in_flight in requests:
            if in_flight.stretch:
                continue
            if self.requests.pop(in_flight.request.id, None):  # it was suspended
                end = Delta(
                    in_flight.request.id, len(in_flight.sampled), (), (), self.version, "abort"
                )
                self.outbox.put([end])

    async def suspend(self) -> None:
        """End all stretches and clear vLLM's caches; return when all tokens are collected."""
        self.suspended = True
        await self.llm.pause_generation(mode="abort", clear_cache=True)
        while any(in_flight.stretch for in_flight in self.requests.values()):
            self.look()
            await asyncio.sleep(SETTLE_SECONDS)

    async def go_on(self) -> None:
        """Send the suspended requests again."""
        self.suspended = False
        for in_flight in list(self.requests.values()):
            await self.send(in_flight)

    async def probe(
        self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...] = ()
    ) -> list[float]:
        """Return the logprob of each token but the first, at temperature 1.

        Raises ValueError if vLLM expands the pictures to other tokens.
        """
        parameters = SamplingParams(
            max_tokens=1,
            prompt_logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        prompt = build_vllm_prompt(token_ids, pictures, self.image_processor)
        name = self._name("probe")
        async for output in self.llm.generate(prompt, parameters, name, lora_request=self.adapter):
            scored = output.prompt_logprobs
            if tuple(output.prompt_token_ids or ()) != tuple(token_ids):
                raise ValueError(
                    "vllm spreads the probe's pictures over other tokens than the policy's own"
                    " processor"
                )
        assert scored is not None
        logprobs = []
        for token, entry in zip(token_ids[1:], scored[1:], strict=True):
            assert entry is not None  # only the first token has none
            logprobs.append(entry[token].logprob)
        return logprobs

    def _take(self, in_flight: InFlightRequest, output: Any) -> Delta:
        completion = output.outputs[0]
        token_ids = tuple(completion.token_ids)
        logprobs = tuple(
            entry[token].logprob
            for token, entry in zip(token_ids, completion.logprobs or (), strict=True)
        )
        stop_reason = self._stop_reason(output.finished, completion)
        delta = Delta(
            in_flight.request.id,
            len(in_flight.sampled),
            token_ids,
            logprobs,
            self.version,
            stop_reason,
        )
        in_flight.sampled += token_ids
        if output.finished:
            self._require_version(completion)
            in_flight.stretch = None
        if delta.stop_reason:
            del self.requests[in_flight.request.id]
        return delta

    def _stop_reason(self, finished: bool, completion: Any) -> StopReason | None:
        if not finished or (self.suspended and completion.finish_reason == "abort"):
            return None
        return STOP_REASONS.get(completion.finish_reason, "error")

    def _require_version(self, completion: Any) -> None:
        """Raise EngineDied if vLLM reports that another version than ours sampled the tokens."""
        reported = {span.version for span in completion.weight_versions or ()}
        if reported - {str(self.version)}:
            raise EngineDied(
                f"tokens thought to be of weight version {self.version} were sampled by"
                f" {sorted(reported)}"
            )

    def _name(self, request_id: str) -> str:
        return f"{request_id}/{next(self._numbers)}"


def _parameters(in_flight: InFlightRequest, room: int) -> SamplingParams:
    """Return the parameters of plain sampling: no truncation and no penalties.

    The model's own end tokens end a reply only if the request names them. `room` is the number of
    tokens left in the model's context.
    """
    sampling = in_flight.request.sampling
    return SamplingParams(
        max_tokens=min(sampling.max_tokens - len(in_flight.sampled), room),
        temperature=sampling.temperature,
        top_p=1.0,
        top_k=0,
        # vLLM starts a new generator for each stretch, which must not repeat numbers.
        seed=stretch_seed(
            in_flight.seed, len(in_flight.request.prompt_ids) + len(in_flight.sampled)
        ),
        stop_token_ids=list(sampling.stop_token_ids),
        ignore_eos=True,
        logprobs=0,  # of the sampled token only
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
