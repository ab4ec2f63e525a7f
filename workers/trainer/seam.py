"""TRL's GRPO trainer, fed with recorded batches instead of generating its own.

The one place that knows TRL. Names relied on, pinned to 1.16 and covered by `test_trl_contract`:
`GRPOConfig`, `GRPOTrainer` (constructor, `_generate_and_score_completions(inputs) -> dict` with the keys of
`collate`, `compute_loss(model, inputs, ...)`, `ref_model`, `create_model_card`), and that the model's forward is
called once per loss with `fused_lm_head=True` and returns `log_probs` and `entropy`, (B, P + C).

TRL itself would set π_old to the current weights; here π_old is what was stored at sampling time, so that the ratio
and its clipping are right however old an experience is.
"""

import os

# Read when the libraries are imported: no telemetry, no look-up on a hub.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from workers.trainer import checkpoint
from workers.trainer.collate import Row, collate
from workers.trainer.gate import Gate
from workers.trainer.report import Recorder, Seen
from workers.trainer.spec import TrainerSpec

# Progress bars and notes on tied weights, several a step, would bury what the station logs.
transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()

AVERAGED_OVER_ROWS = ("grpo", "dr_grpo")


@dataclass(frozen=True)
class Batch:
    """One update's rows; `skip` (a reason) leaves the weights as they are, `save` asks for a checkpoint after it."""

    rows: Sequence[Row]
    skip: str = ""
    save: bool = False


class SeamTrainer(GRPOTrainer):
    """A GRPO trainer whose batches come through a gate."""

    def __init__(self, spec: TrainerSpec, gate: Gate[Batch], recorder: Recorder, staging: Path) -> None:
        self.spec, self.gate, self.recorder = spec, gate, recorder
        self.batch = Batch(())
        super().__init__(
            model=str(spec.policy),
            reward_funcs=judged_elsewhere,
            args=arguments(spec, staging),
            train_dataset=Dataset.from_dict({"prompt": [""] * spec.planned_steps}),
            processing_class=AutoTokenizer.from_pretrained(spec.policy, local_files_only=True),
            callbacks=[StepGuard(self)],
        )
        self.remove_callback(PrinterCallback)
        self.model.register_forward_hook(self._keep_output)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Block until a batch is granted. `inputs` are as many tickets as a batch has rows, and say nothing."""
        self.batch = self.gate.take()
        batch = collate(
            self.batch.rows,
            self.processing_class.pad_token_id,
            divisible_by=self.spec.forward_passes,
            mean_over_rows=self.spec.loss_type in AVERAGED_OVER_ROWS,
        )
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        if self.beta:
            batch["ref_per_token_logps"] = self._reference_logprobs(batch)
        # Another run in this process may have trained meanwhile. Two things are the process's, not the trainer's:
        # whether this micro-batch ends the accumulation, and the generator that TRL shuffles the rows with.
        self.accelerator.sync_gradients = self.spec.forward_passes == 1
        torch.manual_seed(self.spec.seed * 1_000_003 + self.state.global_step)
        return batch

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        width, output = mask.size(1), self._output
        self.recorder.observe(
            Seen(
                policy=output.log_probs[:, -width:].detach(),
                behaviour=inputs["old_per_token_logps"],
                entropy=output.entropy[:, -width:].detach(),
                mask=mask,
                advantages=inputs["advantages"],
            )
        )
        self._output = None
        return loss

    def _keep_output(self, model: torch.nn.Module, args: tuple, output: Any) -> None:
        """Forward hook: the loss's own pass also tells how far the policy is from what sampled."""
        if getattr(output, "log_probs", None) is not None:
            self._output = output

    @torch.no_grad()
    def _reference_logprobs(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logprobs (B, C) of the frozen base policy, one micro-batch at a time."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        width, rows = batch["completion_ids"].size(1), self.spec.rows_per_pass
        parts = []
        for some, mask in zip(ids.split(rows), attention.split(rows), strict=True):
            labels = some.masked_fill(mask == 0, -100)
            with self.accelerator.autocast():
                output = self.ref_model(input_ids=some, attention_mask=mask, labels=labels, fused_lm_head=True)
            parts.append(output.log_probs[:, -width:])
        return torch.cat(parts)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """A checkpoint is no publication."""


class StepGuard(TrainerCallback):
    """Keeps an update that is not finite from touching weights or optimizer, and passes figures and saves on."""

    def __init__(self, trainer: SeamTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        parameters = [p for p in self.trainer.model.parameters() if p.grad is not None]
        norms = torch._foreach_norm([p.grad for p in parameters])
        reason = self.trainer.batch.skip or ("" if torch.stack(norms).isfinite().all() else "the gradient is not finite")
        if reason:
            self.trainer.recorder.skip(reason)
            # An optimizer passes over parameters without a gradient: moments and step count stay as they were.
            for parameter in parameters:
                parameter.grad = None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        control.should_save = self.trainer.batch.save
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        written = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        checkpoint.seal(written, self.trainer.spec.output, state.global_step, self.trainer.spec.keep_checkpoints)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        self.trainer.recorder.log(logs or {})
        state.log_history.clear()  # figures are rows of the run; a checkpoint need not carry its whole past


def arguments(spec: TrainerSpec, staging: Path) -> GRPOConfig:
    """One ticket is one update: a generation batch is one batch of the run, cut into the forward passes."""
    gpu = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(staging),
        max_steps=spec.planned_steps,
        per_device_train_batch_size=spec.rows_per_pass,
        gradient_accumulation_steps=spec.forward_passes,
        steps_per_generation=spec.forward_passes,
        num_generations=spec.rows_per_pass * spec.forward_passes,
        shuffle_dataset=False,
        learning_rate=spec.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=spec.warmup_steps,
        adam_beta1=spec.betas[0],
        adam_beta2=spec.betas[1],
        weight_decay=spec.weight_decay,
        max_grad_norm=spec.max_grad_norm,
        epsilon=spec.epsilon_low,
        epsilon_high=spec.epsilon_high,
        beta=spec.beta,
        loss_type=spec.loss_type,
        temperature=spec.temperature,
        max_completion_length=spec.max_completion_length,
        seed=spec.seed,
        use_cpu=not gpu,
        bf16=gpu,
        gradient_checkpointing=gpu,
        model_init_kwargs={"dtype": "float32", "device_map": None, "local_files_only": True},
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        ignore_data_skip=True,
        report_to=[],
        disable_tqdm=True,
    )


def judged_elsewhere(*args: Any, **kwargs: Any) -> list[float]:
    """TRL insists on a reward function; rewards were given before the batch was recorded."""
    raise RuntimeError("this trainer never asks for rewards")
