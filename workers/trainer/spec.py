"""Specification of a trainer as plain data, and the knobs that may change at each step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

REFERENCES = ("base", "average", "version", "policy")
DDP = "ddp"
FSDP2 = "fsdp2"
SHARDINGS = (DDP, FSDP2)


@dataclass(frozen=True)
class Loss:
    """Name of a loss in `workers.algorithms.losses`, and its keyword arguments."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Divergence:
    """KL penalty: its estimator ("none": no reference model is kept) and its coefficient.

    `where`: "loss" adds it to the loss, "reward" subtracts it from each token's advantage. With a
    `target` (nats per token) the coefficient follows the measured divergence; `horizon` is the
    number of rows that it needs to get there.
    """

    estimator: str = "none"
    coefficient: float = 0.0
    where: str = "loss"
    target: float | None = None
    horizon: float = 10_000

    def __post_init__(self) -> None:
        if self.target is not None and not (self.is_used and self.coefficient > 0):
            raise ValueError(
                "kl.target scales the coefficient: set an estimator and a coefficient above 0"
            )

    @property
    def is_used(self) -> bool:
        """Tell whether anything is measured against a reference model.

        With a coefficient of 0, the divergence is only reported.
        """
        return self.estimator != "none"


@dataclass(frozen=True)
class ReferenceModel:
    """Reference model of the KL penalty, which is also the teacher in distillation.

    - base: the run's first weights.
    - version, policy: the weights in `folder`.
    - average: the policy's own moving average, average ← decay · average + (1 − decay) · policy,
      after every `every`-th step.
    """

    kind: str = "base"
    folder: Path | None = None
    decay: float = 0.99
    every: int = 1

    def __post_init__(self) -> None:
        if self.kind not in REFERENCES:
            raise ValueError(
                f"reference.kind must be one of {', '.join(REFERENCES)}, not {self.kind!r}"
            )
        if (self.folder is None) == (self.kind in ("version", "policy")):
            raise ValueError(
                "a reference of kind version or policy needs a folder of weights; other "
                "kinds must have none"
            )


@dataclass(frozen=True)
class Schedule:
    """CHORD's share of the expert term by step.

    It rises from 0 to `peak` in `warmup` steps, then falls to `valley` along a cosine in `decay`
    steps.
    """

    warmup: int
    decay: int
    peak: float
    valley: float


@dataclass(frozen=True)
class Experts:
    """Learning from expert rows: total loss = (1 − mu) · usual rows + mu · expert rows.

    `rows` is the number of expert rows of a full batch; a `schedule` gives mu by step.
    """

    rows: int = 0
    mu: float = 0.0
    loss: Loss = Loss("sft")
    aggregation: str = "seq-mean-token-mean"
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Objective:
    """Objective of a step; every part names a function of `workers.algorithms` and its options.

    `teacher` names the function of `distillation` that computes each token's advantage from the
    reference model; the rows' own advantages are then not read.
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
    """Low-rank adapters: W + (alpha / rank) · B · A.

    They are added to every module whose name ends in one of `target_modules`.
    """

    rank: int
    alpha: float
    target_modules: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.target_modules:
            raise ValueError("lora needs a rank of 1 or more and at least one of target_modules")
        if {"lm_head", "embed_tokens"} & set(self.target_modules):
            raise ValueError(
                "lora.target_modules: lm_head and embed_tokens cannot have an adapter; "
                "choose attention or MLP layers"
            )


@dataclass(frozen=True)
class Knobs:
    """Settings that may change at every step (apps.runs.changing.UPDATES).

    All other settings are fixed for the life of a host. If `kl_target` (nats per token) is set, the
    coefficient begins at `kl_coefficient` and follows the measured KL. `width` is the most tokens
    that a completion may have.
    """

    learning_rate: float
    temperature: float
    kl_coefficient: float = 0.0
    kl_target: float | None = None
    kl_horizon: float = 10_000
    width: int | None = None

    @classmethod
    def recorded(cls, knobs: Mapping[str, Any]) -> "Knobs":
        """Return a step's recorded knobs, by dotted field. Raises KeyError if one is missing.

        Steps of older releases have no width; theirs is the specification's.
        """
        return cls(
            learning_rate=knobs["optimizer.learning_rate"],
            temperature=knobs["sampling.temperature"],
            kl_coefficient=knobs["algorithm.kl.coefficient"],
            kl_target=knobs["algorithm.kl.target"],
            kl_horizon=knobs["algorithm.kl.horizon"],
            width=knobs.get("sampling.max_tokens"),
        )


@dataclass(frozen=True)
class TrainerSpec:
    """Settings of one run's trainer.

    `policy` is the sealed base folder, and `output` is where checkpoints go. `rows_per_step` is the
    number of rows of a full batch, experts' included. A batch may have fewer (if a rollout failed)
    and is still one step. The sizes of forward passes follow from it and from `micro_batch_rows`
    (None: the whole batch at once).

    - `reset_every`: the optimizer's moments are reset after each so many steps (None: never).
    - `gradient_checkpointing`: whether layers are computed again in the backward pass: "always",
      "never", or "auto", which is on a GPU.
    - `lora`: only adapters are trained.
    - `tower`: whether the vision encoder of a policy is "trained" with the rest or "frozen".
    - `threads`: of forward and backward passes on a CPU. None keeps the process's number.
    - `precision`: number format of forward and backward passes, or "auto" (see
      `workers.precision`).
    - `engine_precision`: the same for the run's engines.
    - `schedule`: of the learning rate after its warm-up, a key of
      `workers.trainer.optimizers.SCHEDULES`.
    - `optimizer`: "adamw" or "adamw_8bit".
    - `processes`: the number of ranks that make each step together (see `workers.trainer.ranks`).
    - `sharding`: whether each rank holds all weights ("ddp") or a shard of them ("fsdp2").
    - `ranks_here`: how many ranks run on this machine (None: all). The others join at `rendezvous`,
      which is "host:port".
    """

    policy: Path
    output: Path
    planned_steps: int
    rows_per_step: int
    optimizer: str = "adamw"
    learning_rate: float = 1e-4
    schedule: str = "constant"
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
    gradient_checkpointing: str = "auto"
    keep_checkpoints: int = 2
    tower: str = "frozen"
    threads: int | None = None
    precision: str = "auto"
    engine_precision: str = "auto"
    processes: int = 1
    sharding: str = DDP
    ranks_here: int | None = None
    rendezvous: str = ""

    def __post_init__(self) -> None:
        if self.rows_per_step < 2:
            raise ValueError(f"rows_per_step must be at least 2, not {self.rows_per_step}")
        if not 1 <= self.processes <= self.rows_per_step:
            raise ValueError(
                f"processes must be from 1 to {self.rows_per_step}, the rows per step, not "
                f"{self.processes}"
            )
        if self.sharding not in SHARDINGS:
            raise ValueError(
                f"sharding must be one of {', '.join(SHARDINGS)}, not {self.sharding!r}"
            )

    @property
    def knobs(self) -> Knobs:
        """Return the knobs of a step that has none of its own."""
        kl = self.objective.kl
        return Knobs(self.learning_rate, self.temperature, kl.coefficient, kl.target, kl.horizon)

    @property
    def is_sharded(self) -> bool:
        """Tell whether each process holds only a shard of the weights."""
        return self.processes > 1 and self.sharding == FSDP2

    @property
    def local_ranks(self) -> int:
        """Return how many of the processes run on this machine."""
        return min(self.processes, self.ranks_here or self.processes)

    @property
    def rows_per_process(self) -> int:
        return ceil(self.rows_per_step / self.processes)

    @property
    def forward_passes(self) -> int:
        """Return how many micro-batches make one step, in each process."""
        rows = self.rows_per_process
        return ceil(rows / min(self.micro_batch_rows or rows, rows))

    @property
    def rows_per_pass(self) -> int:
        return ceil(self.rows_per_process / self.forward_passes)
