"""Interface of every rollout engine; the explorer knows nothing else about engines.

An engine samples with top_p = 1 and no top_k, so that a sampled token's logprob is the behaviour
policy's: it is taken after temperature, in natural log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from apps.policies.manifest import ShownPicture

COLDEST = 0.01  # practically greedy; vLLM silently replaces any lower value by this one
StopReason = Literal["stop", "length", "abort", "error"]


class EngineDied(Exception):
    """Raised when the engine must be replaced; requests in flight are lost."""


class ParityError(Exception):
    """Raised when loaded weights fail the parity check, so that they are not the published ones."""

    def __init__(self, gap: float, limit: float, precision: str) -> None:
        measured = f"mean absolute logprob gap {gap:.4f} at the probe"
        super().__init__(f"{measured}, at most {limit} is allowed in {precision}")
        self.gap = gap


class ProbeLike(Protocol):
    """Published logprobs of a text: `logprobs[i]` belongs to `token_ids[i + 1]`, at temperature 1.

    `pictures` are those in the text. `served` holds, by precision, the logprobs computed from
    weights that were rounded to that precision.
    """

    @property
    def token_ids(self) -> tuple[int, ...]: ...
    @property
    def logprobs(self) -> tuple[float, ...]: ...
    @property
    def pictures(self) -> tuple[ShownPicture, ...]: ...
    @property
    def served(self) -> Mapping[str, tuple[float, ...]]: ...


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of one request; `max_tokens` counts the stop token.

    A token's random number depends only on the `seed` and on the token's position in the text,
    counted from the prompt's first token. So a request is reproducible by itself, and a
    continuation under the same seed goes on as the first request would have. Without a seed a
    request is not reproducible.
    """

    max_tokens: int
    temperature: float = 1.0
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Request:
    """Prompt to continue; for a continuation, `prompt_ids` include the tokens sampled so far.

    `pictures` are those in the prompt, in order. Each knows its place among `prompt_ids`, which
    contain the picture's tokens in full. `is_awaited` means that a caller waits for the end of the
    reply, so that it is worth delivering the end by itself.
    """

    id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    pictures: tuple[ShownPicture, ...] = ()
    is_awaited: bool = False


@dataclass(frozen=True)
class Delta:
    """Tokens sampled since the last delta of this request, all under one weight version.

    `offset` is the number of tokens that the request had before these, so that a gap can be
    noticed. `stop_reason` is None while the request runs. A stop token is the last of `token_ids`.
    """

    request_id: str
    offset: int
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int
    stop_reason: StopReason | None


@dataclass(frozen=True)
class LoadReport:
    """Report on loaded weights: the manifest's fingerprint, and the measured gaps.

    Gaps are mean absolute differences of logprobs, in nats. `probe_gap` is the gap to the logprobs
    in the trainer's precision. `served_gap` is the gap to the logprobs from weights rounded to the
    engine's precision, which the parity check judges; it is None if the manifest has none.
    `milliseconds` is the time from pause to resume or, for the first weights, of the whole load.
    """

    version: int
    fingerprint: str
    probe_gap: float
    milliseconds: float
    served_gap: float | None = None


@dataclass(frozen=True)
class Health:
    """Whether the engine answered within the deadline, and what it is working on."""

    alive: bool
    version: int | None
    in_flight: int
    detail: str


class Engine(Protocol):
    """Rollout engine; its methods may be called from any thread.

    That both engines satisfy this protocol, and vLLM's also `SleepingEngine`, is what mypy checks
    where `choose` returns them.

    Once the engine is dead, `submit`, `drain`, `load` and the probe raise EngineDied; the other
    methods do not.
    """

    name: str
    temperature: float | None  # of requests submitted from now on; those in flight keep their own

    def start(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Load the first weights and begin to serve.

        Raises ParityError, or the error of reading the weights; then nothing is served.
        """

    def load(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Replace the weights; requests in flight continue under the new ones.

        The engine pauses, loads the weights, recomputes its cache, runs the parity check and
        resumes. Raises ParityError, or the error of reading the weights, after it has restored the
        old weights, which are served further.
        """

    def submit(self, requests: list[Request]) -> None:
        """Queue requests.

        Raises ValueError for an id in flight, an invalid request, or pictures for a policy that
        cannot read them. A prompt too long for the model ends with stop reason "error". A reply
        that reaches the end of the model's context ends with "length".
        """

    def drain(self, timeout: float) -> list[Delta]:
        """Return all output since the last call.

        Waits up to `timeout` seconds for the first output.
        """

    def abort(self, ids: list[str]) -> None:
        """End these requests; their last delta has stop reason "abort".

        Unknown ids are ignored, and so is the whole call when the engine is dead.
        """

    def probe_logprobs(
        self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...] = ()
    ) -> list[float]:
        """Return each token's logprob, but the first's, under the live weights at temperature 1."""

    def fingerprint(self) -> str:
        """Return the manifest's fingerprint of the weights in service.

        Raises EngineDied when there are none.
        """

    def health(self, deadline_s: float) -> Health:
        """Ask the engine for a sign of life within `deadline_s` seconds; never raises."""

    def in_flight(self) -> int:
        """Return the number of requests that are submitted and not ended."""

    def stop(self) -> None:
        """End the engine and free the model; may be called twice."""


@runtime_checkable
class SleepingEngine(Engine, Protocol):
    """Engine that can release GPU memory while a trainer computes on the same GPU."""

    @property
    def is_asleep(self) -> bool:
        """Tell whether the GPU memory is released; nothing is sampled until `wake` or `load`."""

    def sleep(self) -> None:
        """Release the GPU memory; requests in flight wait."""

    def wake(self) -> None:
        """Take GPU memory again and serve the same weights, after the parity check."""
