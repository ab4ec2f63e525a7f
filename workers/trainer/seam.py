"""TRL's GRPO trainer, fed with recorded batches instead of generating its own, minimising the run's own objective.

The one place that knows TRL's trainer. Names relied on, pinned to 1.16 and covered by `test_trl_contract`:
`GRPOConfig`, `GRPOTrainer` (constructor with `peft_config`, `_generate_and_score_completions(inputs) -> dict` with the
keys of `collate`, which it shuffles and cuts, `compute_loss(model, inputs, ...)`, `create_model_card`,
`aux_loss_enabled`, `router_aux_loss_coef`, `_load_from_checkpoint`), and the fused head that `forward` calls.

TRL itself would set π_old to the current weights; here it is what was stored at sampling time, so that the ratio and
its clipping are right however old an experience is. TRL's own losses divide by sums over a micro-batch; ours divide by
the update's, so a gradient does not depend on how the rows are cut.
"""

import os

# Read when the libraries are imported: no telemetry, no look-up on a hub.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from workers import precision
from workers.algorithms.tokens import Tokens
from workers.trainer import checkpoint, forward, lora, objective, reference, tuning
from workers.trainer.collate import Row, Windows, collate, fill
from workers.trainer.gate import Gate
from workers.trainer.report import OVERFLOW, Recorder
from workers.trainer.spec import Knobs, TrainerSpec
from workers.vision import loading
from workers.vision.eyes import Eyes

log = structlog.get_logger(__name__)
# Progress bars and notes on tied weights, several a step, would bury what the station logs.
transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


@dataclass(frozen=True)
class Batch:
    """One update's rows, and what it is made with; `skip` (a reason) leaves the weights as they are, `save` asks for a
    checkpoint after it.
    """

    rows: Sequence[Row]
    knobs: Knobs
    skip: str = ""
    save: bool = False


class SeamTrainer(GRPOTrainer):
    """A GRPO trainer whose batches come through a gate."""

    def __init__(self, spec: TrainerSpec, gate: Gate[Batch], recorder: Recorder, staging: Path) -> None:
        self.spec, self.gate, self.recorder = spec, gate, recorder
        self.batch = Batch((), spec.knobs)
        self.threads_of_others: int | None = None
        super().__init__(
            model=str(spec.policy),
            reward_funcs=judged_elsewhere,
            args=arguments(spec, staging),
            train_dataset=Dataset.from_dict({"prompt": [""] * spec.planned_steps}),
            processing_class=AutoTokenizer.from_pretrained(spec.policy, local_files_only=True),
            callbacks=[StepGuard(self)],
            peft_config=lora.config_of(spec.lora) if spec.lora else None,
        )
        self.remove_callback(PrinterCallback)
        self.eyes = Eyes.of(spec.policy)
        if self.eyes and spec.tower == "frozen":
            loading.tower_of(self.model).requires_grad_(False)
        forward.prepare(self.model, spec.temperature)
        self.coefficient = tuning.Coefficient.of(spec.knobs)
        self.temperature_now = spec.temperature  # of the head that the next pass goes through
        self.reference = None
        if spec.objective.needs_reference:
            has_adapters = spec.lora is not None
            self.reference = reference.build(spec.objective.reference, self.model, has_adapters)
            self.reference.heed = gate.heed

    # -- what a checkpoint holds beside model, optimizer, schedule and random state -----------------------------------

    def save_state(self, folder: Path) -> None:
        """Write what the objective has become by now."""
        (folder / checkpoint.STATE).write_text(json.dumps(self.coefficient.state))
        if self.reference:
            self.reference.save(folder)

    def restore_state(self, folder: Path) -> None:
        """Take it up again. Raises OSError or KeyError when the checkpoint does not hold it."""
        self.coefficient = tuning.Coefficient.restored(json.loads((folder / checkpoint.STATE).read_text()))
        if self.reference:
            self.reference.restore(folder)

    # -- one update -------------------------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Block until a batch is granted. `inputs` are as many tickets as a batch has rows, and say nothing."""
        self.batch = self.gate.take()
        self._take_cores()
        self._take_up(self.batch.knobs)
        spec, step = self.spec, self.state.global_step
        if spec.reset_every and step and step % spec.reset_every == 0:
            self.optimizer.optimizer.state.clear()
        batch = collate(self.batch.rows, self.processing_class.pad_token_id, divisible_by=spec.forward_passes)
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        self.gallery = forward.Gallery(fill(self.batch.rows, spec.forward_passes), self.eyes)
        if self.reference:
            rows, autocast = spec.rows_per_pass, self.accelerator.autocast
            batch["ref_per_token_logps"] = self.reference.logprobs(self.model, batch, rows, autocast, self.gallery)
        self.windows = Windows.of(self.batch.rows, spec.max_completion_length)
        self.mu = objective.mu_at(spec.objective.experts, step)
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.accelerator.device)
        # Another run in this process may have trained meanwhile. Two things are the process's, not the trainer's:
        # whether this micro-batch ends the accumulation, and the generator that TRL shuffles the rows with.
        self.accelerator.sync_gradients = spec.forward_passes == 1
        torch.manual_seed(spec.seed * 1_000_003 + step)
        return batch

    def _take_cores(self) -> None:
        """Compute this update with the spec's threads; the process's other trainers wait meanwhile."""
        if self.spec.threads is not None:
            self.threads_of_others = torch.get_num_threads()
            torch.set_num_threads(self.spec.threads)

    def give_cores_back(self) -> None:
        """End what `_take_cores` began; may be called twice."""
        if self.threads_of_others is not None:
            torch.set_num_threads(self.threads_of_others)
            self.threads_of_others = None

    def _take_up(self, knobs: Knobs) -> None:
        """Make what follows with these."""
        tuning.set_learning_rate(self.lr_scheduler, self.optimizer, knobs.learning_rate)
        self.coefficient.take_up(knobs)
        if knobs.temperature != self.temperature_now:
            forward.set_temperature(self.model, knobs.temperature)
            self.temperature_now = knobs.temperature

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """This micro-batch's share of the update's loss. Raises Interrupted, see Gate.grant."""
        self.gate.heed()
        with self.accelerator.autocast():
            found = forward.scores(model, inputs, self.gallery, wants_balance=self.aux_loss_enabled)
        tokens = tokens_of(inputs, found.policy, found.entropy)
        share = objective.share(self.spec.objective, tokens, self.windows, self.mu, self.coefficient.value)
        own = tokens.only(~tokens.is_expert).mask
        self.recorder.observe(share.usual, own)
        self.recorder.keep("behaviour_gap", share.usual["behaviour_gap"], own)
        self.recorder.observe(share.expert, tokens.only(tokens.is_expert).mask)
        loss = share.loss
        if found.balance is not None:  # it has no totals of an update to be divided by, so that passes weigh alike
            loss = loss + self.router_aux_loss_coef * found.balance / self.spec.forward_passes
            self.recorder.observe({"router_balance": found.balance.expand_as(tokens.mask)}, tokens.mask)
        self.is_finite &= loss.detach().isfinite()
        return loss

    def close_update(self) -> None:
        """What follows an update whether it was applied or not, and is the same when it is made again from its record."""
        self.give_cores_back()
        plan, usual, expert = self.spec.objective, self.windows.usual, self.windows.expert
        self.recorder.tell(tokens=usual.tokens + expert.tokens)
        if plan.kl.is_used:
            self.recorder.tell(kl_coefficient=self.coefficient.value)
            self.coefficient.follow(self.batch.knobs, self.recorder.mean("kl"), usual.rows)
        if plan.experts.rows:
            self.recorder.tell(mu=self.mu)
        if self.reference:
            self.reference.follow(self.model, self.state.global_step)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        """Of a model that sees, by the names its class reads: the library's own way would pass over those it does not know."""
        if self.eyes is None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        whole = loading.read(resume_from_checkpoint, dtype="float32")
        self.model.load_state_dict(whole.state_dict())

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """A checkpoint is no publication."""


class StepGuard(TrainerCallback):
    """Keeps an update that is not finite from touching weights or optimizer, and passes figures and saves on."""

    def __init__(self, trainer: SeamTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        parameters = [p for p in self.trainer.model.parameters() if p.grad is not None]
        if reason := self.trainer.batch.skip or self._why_not(parameters):
            self.trainer.recorder.skip(reason)
            # An optimizer passes over parameters without a gradient: moments and step count stay as they were.
            for parameter in parameters:
                parameter.grad = None

    def _why_not(self, parameters: list[torch.nn.Parameter]) -> str:
        if not self.trainer.is_finite:
            return "the loss is not finite"
        norms = torch._foreach_norm([parameter.grad for parameter in parameters])
        if not norms or torch.stack(norms).isfinite().all():
            return ""
        return OVERFLOW if self._can_halve() else "the gradient is not finite"

    def _can_halve(self) -> bool:
        """Whether a smaller scale of a float16 trainer's loss may make its gradients finite."""
        scaler = self.trainer.accelerator.scaler
        return scaler is not None and scaler.get_scale() > 1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        self.trainer.close_update()
        control.should_save = self.trainer.batch.save
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        written = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        self.trainer.save_state(written)
        checkpoint.seal(written, self.trainer.spec.output, state.global_step, self.trainer.spec.keep_checkpoints)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        self.trainer.recorder.log(logs or {})
        state.log_history.clear()  # figures are rows of the run; a checkpoint need not carry its whole past


def tokens_of(inputs: dict[str, torch.Tensor], policy: torch.Tensor, entropy: torch.Tensor) -> Tokens:
    """A micro-batch under the names the losses know.

    An update uses its batch once, so the weights at its start are those of this very pass: the proximal logprobs are
    the policy's own, and stay right for every micro-batch, since nothing changes before the last of them.
    """
    advantages = inputs["advantages"]
    return Tokens(
        policy=policy,
        behaviour=inputs["old_per_token_logps"],
        mask=forward.loss_mask(inputs),
        advantages=inputs.get("token_advantages", advantages[:, None]).expand_as(policy),
        reference=inputs.get("ref_per_token_logps"),
        proximal=policy.detach(),
        entropy=entropy,
        is_expert=inputs.get("is_expert", torch.zeros_like(advantages, dtype=torch.bool)),
    )


def arguments(spec: TrainerSpec, staging: Path) -> GRPOConfig:
    """One ticket is one update: a generation batch is one batch of the run, cut into the forward passes."""
    return GRPOConfig(
        **common_arguments(spec, staging),
        per_device_train_batch_size=spec.rows_per_pass,
        gradient_accumulation_steps=spec.forward_passes,
        steps_per_generation=spec.forward_passes,
        num_generations=spec.rows_per_pass * spec.forward_passes,
        shuffle_dataset=False,
        temperature=spec.temperature,
        max_completion_length=spec.max_completion_length,
        model_init_kwargs={"dtype": "float32", "device_map": None, "local_files_only": True},
    )


def common_arguments(spec: TrainerSpec, staging: Path) -> dict[str, Any]:
    """What every trainer of ours tells the library: the optimizer, and to save, log and report nothing by itself."""
    gpu = torch.cuda.is_available()
    computes_in = precision_of(spec)
    return {
        "output_dir": str(staging),
        "max_steps": spec.planned_steps,
        "learning_rate": spec.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": spec.warmup_steps,
        "adam_beta1": spec.betas[0],
        "adam_beta2": spec.betas[1],
        "weight_decay": spec.weight_decay,
        "max_grad_norm": spec.max_grad_norm,
        "seed": spec.seed,
        "use_cpu": not gpu,
        "bf16": computes_in == "bfloat16",
        "fp16": computes_in == "float16",
        "gradient_checkpointing": gpu,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "ignore_data_skip": True,
        "report_to": [],
        "disable_tqdm": True,
    }


def precision_of(spec: TrainerSpec) -> str:
    """What the passes of this trainer compute in here. Raises UnsupportedPrecision."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parameters = precision.parameters_in(spec.policy)
    chosen = precision.choose("trainer", spec.precision, parameters, device)
    log.info("precision_chosen", policy=spec.policy.name, trainer=chosen.name, reason=chosen.reason)
    return chosen.name


def judged_elsewhere(*args: Any, **kwargs: Any) -> list[float]:
    """TRL insists on a reward function; rewards were given before the batch was recorded."""
    raise RuntimeError("this trainer never asks for rewards")
