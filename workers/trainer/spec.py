"""Everything a trainer must know before its first update. It is fixed for the life of a host."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path


@dataclass(frozen=True)
class TrainerSpec:
    """Hyper-parameters of one run's trainer.

    `policy` is the sealed base folder, `output` where checkpoints go. `rows_per_step` is how many rows a full batch
    has; a batch may hold fewer (a rollout failed) and is still one update. All sizes of the forward passes are
    derived from it and `micro_batch_rows` (None: the whole batch at once).
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
    epsilon_low: float = 0.2
    epsilon_high: float = 0.28
    beta: float = 0.0
    loss_type: str = "dapo"
    temperature: float = 1.0
    max_completion_length: int = 64
    seed: int = 0
    micro_batch_rows: int | None = None
    keep_checkpoints: int = 2

    def __post_init__(self) -> None:
        if self.rows_per_step < 2:
            raise ValueError(f"rows_per_step is {self.rows_per_step}; a group-relative update needs at least 2 rows")

    @property
    def forward_passes(self) -> int:
        """How many micro-batches make one update."""
        return ceil(self.rows_per_step / min(self.micro_batch_rows or self.rows_per_step, self.rows_per_step))

    @property
    def rows_per_pass(self) -> int:
        return ceil(self.rows_per_step / self.forward_passes)
