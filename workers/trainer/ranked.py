"""Base class of all trainers: one process or several, whole or sharded weights.

Checkpoints are the same files for any number of processes: whole tensors, gathered to rank 0. So a
run can resume from one with any number of processes. (torch.distributed.checkpoint would write the
shards themselves, which is faster for models that fit on no single machine, but a second format. A
published version is whole anyway, so rank 0 must have room for the weights.)

Names used from transformers 5.19, of `Trainer`: `create_optimizer`, `save_model`, `_save`,
`_save_checkpoint(model, trial)`, `_save_optimizer_and_scheduler`, `_save_rng_state`,
`_load_optimizer_and_scheduler`, `_load_rng_state`, `_get_grad_norm`, `callback_handler.on_save`.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy
import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedTokenizerBase, Trainer
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from workers.trainer import forward, sharding
from workers.trainer.ranks import Command, Ranks
from workers.trainer.reference import Reference
from workers.trainer.report import Recorder
from workers.trainer.spec import Knobs, TrainerSpec

RNG = "rng_state.pth"


Item = TypeVar("Item")


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """Rows of one step, and its settings.

    `skip` (a reason) leaves the weights unchanged, `save` asks for a checkpoint afterwards.
    """

    rows: Sequence[Item]
    knobs: Knobs
    skip: str = ""
    save: bool = False


class RankedTrainer(Trainer, Generic[Item]):
    """Trainer in one process or a group; `spec` and `ranks` must be set before it is built."""

    # Attributes of the library's, which has them once it is built.
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    lr_scheduler: LambdaLR
    processing_class: PreTrainedTokenizerBase

    spec: TrainerSpec
    batch: Batch[Item]
    is_finite: torch.Tensor  # whether the losses of the step so far are, 0-dim
    ranks: Ranks
    recorder: Recorder
    reference: Reference | None
    threads_of_others: int | None = None
    is_sharded = False  # by now
    mirror: torch.nn.Module | None = None
    used_before = 0.0  # processor seconds when the current step began
    seconds_of_others = 0.0  # processor seconds of the other ranks for the last step

    # -- cores -------------------------------------------------------------------------------------

    def take_cores(self) -> None:
        """Compute this step with the spec's threads.

        Other trainers of the process wait meanwhile.
        """
        self.used_before = time.process_time()
        if self.spec.threads is not None:
            self.threads_of_others = torch.get_num_threads()
            torch.set_num_threads(self.spec.threads)

    def give_cores_back(self) -> None:
        """Undo `take_cores`; may be called twice."""
        if self.threads_of_others is not None:
            torch.set_num_threads(self.threads_of_others)
            self.threads_of_others = None

    def share_metrics(self) -> None:
        """Send every rank the metrics of the whole step, after it is made."""
        if self.ranks.size == 1:
            return
        used = time.process_time() - self.used_before
        reports = self.ranks.gathered((self.recorder.parts, used))
        self.recorder.add_up([parts for parts, _ in reports])
        self.seconds_of_others = sum(seconds for _, seconds in reports) - used

    # -- weights in parts --------------------------------------------------------------------------

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """Shard the model first, if required: the optimizer holds moments of shards only."""
        if self.spec.is_sharded and not self.is_sharded:
            whole = forward.unwrap_policy(self.model)
            sharding.shard(self.model, whole, self.ranks.size)
            if self.reference:
                self.reference.shard(self.model)
            self.is_sharded = True
        return super().create_optimizer(*args, **kwargs)

    def whole_model(self) -> torch.nn.Module | None:
        """Return the policy with all its weights in rank 0, and None in the other ranks.

        All ranks must call it. Without sharding it is the trained model itself, otherwise a copy in
        CPU memory.
        """
        if not self.is_sharded:
            return self.model
        if not self.ranks.is_first:
            sharding.whole_state(self.model, keep=False)
            return None
        self.ranks.send(Command.PUBLISH)
        state = sharding.whole_state(self.model, keep=True)
        if self.mirror is None:
            self.mirror = self.fresh_model()
        self.mirror.load_state_dict(state)
        return self.mirror

    def fresh_model(self) -> torch.nn.Module:
        """Return a model of the same architecture in CPU memory, with arbitrary weights."""
        raise NotImplementedError

    def close_update(self) -> None:
        """Record the metrics of a step that was applied or skipped."""
        raise NotImplementedError

    def save_state(self, folder: Path) -> None:
        """Write into a checkpoint what the objective must remember."""
        raise NotImplementedError

    def restore_state(self, folder: Path) -> None:
        """Read what `save_state` wrote."""
        raise NotImplementedError

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        if isinstance(grad_norm, torch.Tensor):
            grad_norm = sharding.gathered(grad_norm)
        # The library gives this method no types.
        return super()._get_grad_norm(model, grad_norm=grad_norm)  # type: ignore[no-untyped-call]

    # -- checkpoints -------------------------------------------------------------------------------

    def write_checkpoint(self) -> None:
        """Write a checkpoint of the last complete step; called between two steps.

        An interrupted step has changed no weights.
        """
        if self.ranks.is_first:
            self.ranks.send(Command.SAVE)
        self._save_checkpoint(self.model, None)
        self.callback_handler.on_save(self.args, self.state, self.control)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        if not self.is_sharded:
            super().save_model(output_dir, _internal_call)
            return
        state = sharding.whole_state(self.model, keep=self.ranks.is_first)
        if self.ranks.is_first:
            self._save(output_dir, state_dict=state)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.is_sharded:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        first = self.ranks.is_first
        whole = sharding.whole_optimizer(self.optimizer.state_dict(), keep=first)
        if first:
            torch.save(whole, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or not self.is_sharded:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        folder = Path(checkpoint)
        whole = torch.load(folder / OPTIMIZER_NAME, map_location="cpu", weights_only=True)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.optimizer.load_state_dict(sharding.part_of_optimizer(whole, parameters))
        schedule = torch.load(folder / SCHEDULER_NAME, map_location="cpu", weights_only=True)
        self.lr_scheduler.load_state_dict(schedule)

    def _save_rng_state(self, output_dir: str) -> None:
        """Save the random state in the format of a single process.

        Every step seeds its generators again, so no rank has a random state of its own to keep.
        """
        if self.ranks.size == 1:
            super()._save_rng_state(output_dir)
        elif self.ranks.is_first:
            state = {
                "python": random.getstate(),
                "numpy": numpy.random.get_state(),
                "cpu": torch.random.get_rng_state(),
            }
            if torch.cuda.is_available():
                state["cuda"] = torch.cuda.random.get_rng_state()
            torch.save(state, Path(output_dir) / RNG)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if self.ranks.size == 1:
            super()._load_rng_state(checkpoint)
