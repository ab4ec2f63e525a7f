"""Interface of every rollout engine; the explorer knows nothing else about engines.

An engine samples with top_p = 1 and no top_k, so that a sampled token's logprob is the behaviour
policy's: it is taken after temperature, in natural log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from apps.policies.manifest import ShownPicture

COLDEST = 0.01  # as good as greedy; vLLM takes anything below for this, without an error
StopReason = Literal["stop", "length", "abort", "error"]


class EngineDied(Exception):
    """Raised when the engine must be replaced; requests in flight are lost."""


class ParityError(Exception):
    """Raised when loaded weights miss their manifest's probe: they are not those published."""

    def __init__(self, gap: float, limit: float, precision: str) -> None:
        found = f"mean absolute logprob gap {gap:.4f} at the probe"
        super().__init__(f"{found}, at most {limit} is allowed in {precision}")
        self.gap = gap


class ProbeLike(Protocol):
    """Probe: `logprobs[i]` is the logprob of `token_ids[i + 1]` at temperature 1.

    `pictures`: in that text. `served`: the same by precision, from weights rounded to it.
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
    """Prompt to continue; in a continuation, `prompt_ids` include the tokens so far.

    `pictures`: those it shows, in order, with their places among `prompt_ids`, where their tokens
    are already spread out.
    """

    id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    pictures: tuple[ShownPicture, ...] = ()


@dataclass(frozen=True)
class Delta:
    """Tokens sampled since the last delta of this request, all by weights of one version.

    `offset` counts the request's sampled tokens before these, so that a gap shows. `stop_reason` is
    None while the request runs; the stop token, when there is one, is the last of `token_ids`.
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

    Gaps are mean absolute differences in nats. `probe_gap`: to the trainer's own
    logprobs; `served_gap`: to those from weights rounded alike, by which they were proved, None
    for manifests without any. `milliseconds`: from pause to resume; of the first weights, the whole
    load.
    """

    version: int
    fingerprint: str
    probe_gap: float
    milliseconds: float
    served_gap: float | None = None


@dataclass(frozen=True)
class Health:
    """Whether the engine answered within the deadline, and what it is busy with."""

    alive: bool
    version: int | None
    in_flight: int
    detail: str


class Engine(Protocol):
    """Thread-safe rollout engine.

    `submit`, `drain`, `load` and the probe raise EngineDied once the engine is dead, the others do
    not.
    """

    name: str
    temperature: float  # of all that is submitted from now on; what is in flight keeps its own

    def start(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Load the first weights and begin to serve.

        Raises ParityError, or the reading error, and serves nothing then.
        """

    def load(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        """Pause, update, recompute what is cached, probe, resume; requests in flight go on under
        the new weights.

        Raises ParityError or the reading error after going back to the old weights, which go on
        serving.
        """

    def submit(self, requests: list[Request]) -> None:
        """Queue requests.

        Raises ValueError for an id in flight, an invalid request, or pictures for a policy that
        cannot see them. A prompt too long for the model ends with stop reason "error"; a reply that
        reaches the model's context, "length".
        """

    def drain(self, timeout: float) -> list[Delta]:
        """Return all news since the last call.

        Waits up to `timeout` seconds for the first of it.
        """

    def abort(self, ids: list[str]) -> None:
        """End these requests; their last delta has stop reason "abort".

        Unknown ids, and a dead engine, are passed over.
        """

    def probe_logprobs(
        self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...] = ()
    ) -> list[float]:
        """Return the logprob at temperature 1 of each token given those before it.

        It is computed by the live weights; there is one fewer than tokens.
        """

    def fingerprint(self) -> str:
        """Return the manifest's fingerprint of the weights in service.

        EngineDied when there are none.
        """

    def health(self, deadline_s: float) -> Health:
        """Ask the engine for a sign of life within `deadline_s` seconds; never raises."""

    def in_flight(self) -> int:
        """Return how many requests are submitted and not ended."""

    def stop(self) -> None:
        """End the engine and free the model; may be called twice."""


class SleepingEngine(Engine, Protocol):
    """An engine that can give the GPU's memory back while a trainer on the same GPU computes."""

    @property
    def is_asleep(self) -> bool:
        """Tell whether it gave the memory back; nothing is sampled until `wake` or `load`."""

    def sleep(self) -> None:
        """Free the memory; requests in flight wait."""

    def wake(self) -> None:
        """Take the memory again and serve the same weights, after the parity check."""
