"""Everything a trainer must know before its first update, as plain data; and what may be another at each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

REFERENCES = ("base", "average", "version", "policy")


@dataclass(frozen=True)
class Loss:
    """A loss of `workers.algorithms.losses` by name, with the keyword arguments it is called with."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Divergence:
    """The KL to the reference model: its estimator by name ("none": no reference model is kept) and its coefficient.

    `where`: "loss" adds it to the loss, "reward" takes it from each token's advantage. With a `target` (nats per
    token) the coefficient follows the measured divergence; `horizon` is how many rows it needs to get there.
    """

    estimator: str = "none"
    coefficient: float = 0.0
    where: str = "loss"
    target: float | None = None
    horizon: float = 10_000

    def __post_init__(self) -> None:
        if self.target is not None and not (self.is_used and self.coefficient > 0):
            raise ValueError("kl.target adapts the coefficient by factors: name an estimator and a coefficient above 0")

    @property
    def is_used(self) -> bool:
        """Whether anything is measured against a reference model; with a coefficient of 0 it is only shown."""
        return self.estimator != "none"


@dataclass(frozen=True)
class ReferenceModel:
    """What the KL measures against, and who a teacher is.

    base: the run's first weights; version, policy: the weights in `folder`; average: the policy's own moving average,
    average ← decay · average + (1 − decay) · policy, after every `every`-th update.
    """

    kind: str = "base"
    folder: Path | None = None
    decay: float = 0.99
    every: int = 1

    def __post_init__(self) -> None:
        if self.kind not in REFERENCES:
            raise ValueError(f"reference.kind is {self.kind!r}; known are {', '.join(REFERENCES)}")
        if (self.folder is None) == (self.kind in ("version", "policy")):
            raise ValueError("a reference of kind version or policy, and no other, needs the folder of its weights")


@dataclass(frozen=True)
class Schedule:
    """CHORD's share of the expert term: a rise from 0 to `peak` in `warmup` steps, a cosine to `valley` in `decay` steps."""

    warmup: int
    decay: int
    peak: float
    valley: float


@dataclass(frozen=True)
class Experts:
    """How rows written by experts are learned from: total loss = (1 − mu) · usual rows + mu · expert rows.

    `rows` is how many a full batch holds; a `schedule` gives mu by step.
    """

    rows: int = 0
    mu: float = 0.0
    loss: Loss = Loss("sft")
    aggregation: str = "seq-mean-token-mean"
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Objective:
    """What an update minimises; every part is a name of `workers.algorithms` with its options.

    `teacher`: each token's advantage is what the reference model makes of it, by this function of `distillation`; the
    rows' own advantages are not read.
    """

    loss: Loss = Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28})
    aggregation: str = "token-mean"
    kl: Divergence = Divergence()
    reference: ReferenceModel = ReferenceModel()
    entropy: float = 0.0
    experts: Experts = Experts()
    teacher: Loss | None = None

    @property
    def needs_reference(self) -> bool:
        return self.kl.is_used or self.teacher is not None


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters: W + (alpha / rank) · B · A at every module whose name ends in one of `target_modules`."""

    rank: int
    alpha: float
    target_modules: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.target_modules:
            raise ValueError("lora needs a rank of 1 or more and at least one of target_modules")
        if {"lm_head", "embed_tokens"} & set(self.target_modules):
            raise ValueError("lora.target_modules: lm_head and embed_tokens cannot carry an adapter; name attention or MLP layers")


@dataclass(frozen=True)
class Knobs:
    """What may be another at every update (apps.runs.changing.UPDATES); all else is fixed for the life of a host.

    Where `kl_target` (nats per token) is set, the coefficient begins at `kl_coefficient` and follows what is measured.
    """

    learning_rate: float
    temperature: float
    kl_coefficient: float = 0.0
    kl_target: float | None = None
    kl_horizon: float = 10_000

    @classmethod
    def recorded(cls, knobs: Mapping[str, Any]) -> "Knobs":
        """As a step keeps them, by dotted field. Raises KeyError where one is missing."""
        return cls(
            learning_rate=knobs["optimizer.learning_rate"],
            temperature=knobs["sampling.temperature"],
            kl_coefficient=knobs["algorithm.kl.coefficient"],
            kl_target=knobs["algorithm.kl.target"],
            kl_horizon=knobs["algorithm.kl.horizon"],
        )


@dataclass(frozen=True)
class TrainerSpec:
    """Hyper-parameters of one run's trainer.

    `policy` is the sealed base folder, `output` where checkpoints go. `rows_per_step` is how many rows a full batch
    has, experts' included; a batch may hold fewer (a rollout failed) and is still one update. All sizes of the forward
    passes are derived from it and `micro_batch_rows` (None: the whole batch at once). `reset_every`: the optimizer
    forgets its moments each time so many updates are made (None: never). `lora`: train adapters only. `tower`: whether the
    part of a policy that looks at pictures is "trained" with the rest or "frozen".
    `threads`: of its passes on a CPU; None leaves the process's number.
    `precision`: what passes compute in, or "auto", see `workers.precision`; `engine_precision`: the
    same of the run's engines.
    """

    policy: Path
    output: Path
    planned_steps: int
    rows_per_step: int
    learning_rate: float = 1e-4
    warmup_steps: int = 5
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    max_grad_norm: float = 0.5
    objective: Objective = Objective()
    lora: Lora | None = None
    reset_every: int | None = None
    temperature: float = 1.0
    max_completion_length: int = 64
    seed: int = 0
    micro_batch_rows: int | None = None
    keep_checkpoints: int = 2
    tower: str = "frozen"
    threads: int | None = None
    precision: str = "auto"
    engine_precision: str = "auto"

    def __post_init__(self) -> None:
        if self.rows_per_step < 2:
            raise ValueError(f"rows_per_step is {self.rows_per_step}; an update needs at least 2 rows")

    @property
    def knobs(self) -> Knobs:
        """Those of an update that brings none of its own."""
        kl = self.objective.kl
        return Knobs(self.learning_rate, self.temperature, kl.coefficient, kl.target, kl.horizon)

    @property
    def forward_passes(self) -> int:
        """How many micro-batches make one update."""
        return ceil(self.rows_per_step / min(self.micro_batch_rows or self.rows_per_step, self.rows_per_step))

    @property
    def rows_per_pass(self) -> int:
        return ceil(self.rows_per_step / self.forward_passes)
