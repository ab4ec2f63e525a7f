"""TRL's GRPO trainer with recorded batches and the run's own objective.

Only this module knows TRL's trainer. Names used, pinned to TRL 1.16 and covered by
`test_trl_contract`: `GRPOConfig`, `GRPOTrainer` (constructor with `peft_config`,
`_generate_and_score_completions(inputs) -> dict` with the keys of `collate`, which it shuffles and
cuts, `compute_loss(model, inputs, ...)`, `create_model_card`, `aux_loss_enabled`,
`router_aux_loss_coef`, `_load_from_checkpoint`), and the fused head that `forward` calls.

TRL would set π_old to the current weights. Here π_old is what was stored at sampling time, so the
ratio and its clipping are right however old an experience is. TRL's own losses divide by sums over
a micro-batch. Ours divide by sums over the step, so a gradient does not depend on how the rows
are cut.
"""

import os

# Read when the libraries are imported: no telemetry, no requests to a hub.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_OFFLINE"] = os.environ[
    "TRANSFORMERS_OFFLINE"
] = "1"

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

import json
from pathlib import Path
from typing import Any, Generic

import structlog
import torch
from accelerate.optimizer import AcceleratedOptimizer
from datasets import Dataset
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from workers import precision
from workers.algorithms.tokens import Tokens
from workers.trainer import (
    checkpoint,
    forward,
    lora,
    objective,
    optimizers,
    reference,
    sharding,
    tuning,
)
from workers.trainer.batch_queue import BatchSource
from workers.trainer.collate import Row, Windows, choose_rank_rows, collate
from workers.trainer.ranked import Batch, Item, RankedTrainer
from workers.trainer.ranks import ALONE, Ranks
from workers.trainer.report import OVERFLOW, Recorder
from workers.trainer.spec import Knobs, TrainerSpec
from workers.vision import loading
from workers.vision.image_processor import ImageProcessor

log = structlog.get_logger(__name__)
FROM_FOLDER = {"dtype": "float32", "device_map": None, "local_files_only": True}
# Progress bars and notes on tied weights, several a step, would drown the log lines of the loop.
transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


class BufferGRPOTrainer(RankedTrainer[Row], GRPOTrainer):
    """GRPO trainer that takes batches from a queue; each rank trains on its share of the rows."""

    def __init__(
        self,
        spec: TrainerSpec,
        batch_queue: BatchSource[Batch[Row]],
        recorder: Recorder,
        staging: Path,
        ranks: Ranks = ALONE,
    ) -> None:
        self.spec = spec
        self.batch_queue = batch_queue
        self.recorder = recorder
        self.ranks = ranks
        self.batch = Batch((), spec.knobs)
        self.image_processor = ImageProcessor.of(spec.policy)
        args = grpo_arguments(spec, staging)
        # A rank whose rows show no pictures has no gradient for the vision encoder.
        args.ddp_find_unused_parameters = self.image_processor is not None
        super().__init__(
            model=str(spec.policy),
            reward_funcs=judged_elsewhere,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": [""] * spec.planned_steps}),
            processing_class=AutoTokenizer.from_pretrained(spec.policy, local_files_only=True),
            callbacks=[StepGuard(self)],
            peft_config=lora.build_lora_config(spec.lora) if spec.lora else None,
        )
        self.remove_callback(PrinterCallback)
        if self.image_processor and spec.tower == "frozen":
            loading.find_vision_encoder(forward.unwrap_policy(self.model)).requires_grad_(False)
        forward.prepare_scoring(self.model, spec.temperature)
        self.coefficient = tuning.Coefficient.of(spec.knobs)
        self.temperature_now = spec.temperature  # temperature of the head in the next forward pass
        self.reference = None
        if spec.objective.needs_reference:
            has_adapters = spec.lora is not None
            self.reference = reference.build_reference(
                spec.objective.reference, self.model, has_adapters
            )
            self.reference.raise_if_interrupted = batch_queue.raise_if_interrupted

    # -- what a checkpoint holds besides model, optimizer, schedule and random state

    def save_state(self, folder: Path) -> None:
        """Write the state of the objective."""
        if self.ranks.is_first:
            (folder / checkpoint.STATE).write_text(json.dumps(self.coefficient.state))
        if self.reference:
            self.reference.save(folder, self.ranks.is_first)

    def fresh_model(self) -> torch.nn.Module:
        model = AutoModelForCausalLM.from_pretrained(self.spec.policy, **FROM_FOLDER)
        return (
            get_peft_model(model, lora.build_lora_config(self.spec.lora))
            if self.spec.lora
            else model
        )

    def restore_state(self, folder: Path) -> None:
        """Read the state of the objective from a checkpoint.

        Raises OSError or KeyError if the checkpoint lacks it.
        """
        self.coefficient = tuning.Coefficient.restored(
            json.loads((folder / checkpoint.STATE).read_text())
        )
        if self.reference:
            self.reference.restore(folder)

    # -- one step

    def _generate_and_score_completions(
        self, inputs: list[dict[str, Any]]
    ) -> dict[str, torch.Tensor]:
        """Block until a batch is granted, and return its tensors.

        `inputs` only has as many placeholders as a batch has rows; their contents are not read.
        """
        self.batch = self.batch_queue.get()
        self.take_cores()
        self._take_up(self.batch.knobs)
        spec = self.spec
        step = self.state.global_step
        if spec.reset_every and step and step % spec.reset_every == 0:
            assert isinstance(self.optimizer, AcceleratedOptimizer)
            self.optimizer.optimizer.state.clear()
        rows = choose_rank_rows(
            self.batch.rows, self.ranks.rank, self.ranks.size, spec.forward_passes
        )
        batch = collate(rows, self.processing_class.pad_token_id)
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        self.gallery = forward.Gallery(rows, self.image_processor)
        if self.reference:
            rows_per_pass = spec.rows_per_pass
            autocast = self.accelerator.autocast
            batch["ref_per_token_logps"] = self.reference.logprobs(
                self.model, batch, rows_per_pass, autocast, self.gallery
            )
        width = self.batch.knobs.width or spec.max_completion_length
        self.windows = Windows.of(self.batch.rows, width)
        self.mu = objective.mu_at(spec.objective.experts, step)
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.accelerator.device)
        # Another run in this process may have trained meanwhile. Two settings belong to the
        # process and not to the trainer: whether this micro-batch ends the accumulation, and the
        # generator with which TRL shuffles the rows.
        self.accelerator.sync_gradients = spec.forward_passes == 1
        torch.manual_seed(spec.seed * 1_000_003 + step)
        return batch

    def _take_up(self, knobs: Knobs) -> None:
        """Apply these knobs to the next step."""
        tuning.set_learning_rate(self.lr_scheduler, self.optimizer, knobs.learning_rate)
        self.coefficient.take_up(knobs)
        if knobs.temperature != self.temperature_now:
            forward.set_temperature(self.model, knobs.temperature)
            self.temperature_now = knobs.temperature

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """Return this micro-batch's share of the step's loss.

        Raises Interrupted (see BatchQueue.put).
        """
        self.batch_queue.raise_if_interrupted()
        with self.accelerator.autocast():
            scores = forward.scores(
                model, inputs, self.gallery, wants_balance=self.aux_loss_enabled
            )
        tokens = build_loss_tokens(inputs, scores.policy, scores.entropy)
        share = objective.share(
            self.spec.objective, tokens, self.windows, self.mu, self.coefficient.value
        )
        usual_mask = tokens.only(~tokens.expert_rows).mask
        self.recorder.observe(share.usual, usual_mask)
        self.recorder.keep("behaviour_gap", share.usual["behaviour_gap"], usual_mask)
        self.recorder.observe(share.expert, tokens.only(tokens.expert_rows).mask)
        loss = share.loss
        if scores.balance is not None:
            # The balance has no totals over the step, so all forward passes weigh the same.
            passes = self.spec.forward_passes * self.ranks.size
            loss = loss + self.router_aux_loss_coef * scores.balance / passes
            self.recorder.observe(
                {"router_balance": scores.balance.expand_as(tokens.mask)}, tokens.mask
            )
        self.is_finite &= loss.detach().isfinite()
        return loss * self.ranks.size  # torch takes the mean over ranks

    def close_update(self) -> None:
        """Record the step's metrics, then let the KL coefficient and the reference follow.

        It runs whether the step was applied or not, and gives the same result when the step is
        made again from its record.
        """
        self.give_cores_back()
        self.share_metrics()
        plan = self.spec.objective
        usual = self.windows.usual
        expert = self.windows.expert
        self.recorder.tell(tokens=usual.tokens + expert.tokens)
        if plan.kl.is_used:
            self.recorder.tell(kl_coefficient=self.coefficient.value)
            self.coefficient.follow(self.batch.knobs, self.recorder.mean("kl"), usual.rows)
        if plan.experts.rows:
            self.recorder.tell(mu=self.mu)
        if self.reference:
            self.reference.follow(self.model, self.state.global_step)

    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: torch.nn.Module | None = None
    ) -> None:
        """Load the weights; for a vision model, by the parameter names that its class uses.

        The library's own method would ignore names that it does not know.
        """
        if self.image_processor is None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        whole = loading.load_vision_model(resume_from_checkpoint, dtype="float32")
        self.model.load_state_dict(whole.state_dict())

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a checkpoint is not published and needs no model card."""


class StepGuard(TrainerCallback, Generic[Item]):
    """Callback that keeps a non-finite step from weights and optimizer, and reports metrics."""

    def __init__(self, trainer: RankedTrainer[Item]) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        parameters = [p for p in self.trainer.model.parameters() if p.grad is not None]
        gradients = [sharding.local_shard(p.grad) for p in parameters if p.grad is not None]
        if reason := self.trainer.batch.skip or self._why_not(gradients):
            self.trainer.recorder.skip(reason)
            # An optimizer ignores parameters without a gradient, so their moments and step count
            # stay as they were.
            for parameter in parameters:
                parameter.grad = None

    def _why_not(self, gradients: list[torch.Tensor]) -> str:
        """Return the problem of the step in any rank; "" if all ranks can apply it.

        All ranks get the same answer, so all of them skip the step, or none does.
        """
        ranks = self.trainer.ranks
        if ranks.any(not self.trainer.is_finite):
            return "the loss is not finite"
        norms = torch._foreach_norm(gradients)
        if not ranks.any(bool(norms) and not torch.stack(norms).isfinite().all()):
            return ""
        return OVERFLOW if self._can_halve() else "the gradient is not finite"

    def _can_halve(self) -> bool:
        """Tell whether a smaller loss scale of a float16 trainer may make its gradients finite."""
        scaler = self.trainer.accelerator.scaler
        return scaler is not None and scaler.get_scale() > 1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        self.trainer.close_update()
        control.should_save = self.trainer.batch.save
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        written = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        self.trainer.save_state(written)
        if self.trainer.ranks.is_first:
            spec = self.trainer.spec
            checkpoint.seal_checkpoint(
                written, spec.output, state.global_step, spec.keep_checkpoints
            )

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        self.trainer.recorder.log(logs or {})
        # metrics are stored in the database, so a checkpoint needs no history of them
        state.log_history.clear()


def build_loss_tokens(
    inputs: dict[str, torch.Tensor], policy: torch.Tensor, entropy: torch.Tensor
) -> Tokens:
    """Return a micro-batch under the names that the losses use.

    A step uses its batch once, so the weights at its start are those of this forward pass. The
    proximal logprobs are the policy's own, for every micro-batch, since the weights do not change
    before the last one.
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


def grpo_arguments(spec: TrainerSpec, staging: Path) -> GRPOConfig:
    """Return the library's arguments: one of its generation batches is one batch of the run.

    It is cut into the forward passes of one step.
    """
    return GRPOConfig(
        **common_arguments(spec, staging),
        per_device_train_batch_size=spec.rows_per_pass,
        gradient_accumulation_steps=spec.forward_passes,
        steps_per_generation=spec.forward_passes,
        num_generations=spec.rows_per_pass * spec.forward_passes * spec.processes,
        shuffle_dataset=False,
        temperature=spec.temperature,
        max_completion_length=spec.max_completion_length,
        model_init_kwargs=FROM_FOLDER,
    )


def common_arguments(spec: TrainerSpec, staging: Path) -> dict[str, Any]:
    """Return the library arguments that all trainers share, such as the optimizer and precision.

    The library itself saves and reports nothing.
    """
    gpu = torch.cuda.is_available()
    computes_in = choose_trainer_precision(spec)
    again = spec.gradient_checkpointing
    return {
        "output_dir": str(staging),
        "max_steps": spec.planned_steps,
        **optimizers.optimizer_arguments(spec),
        "seed": spec.seed,
        "use_cpu": not gpu,
        "bf16": computes_in == "bfloat16",
        "fp16": computes_in == "float16",
        "gradient_checkpointing": again == "always" or (gpu and again == "auto"),
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "ignore_data_skip": True,
        "report_to": [],
        "disable_tqdm": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "ddp_backend": ("nccl" if gpu else "gloo") if spec.processes > 1 else None,
        "ddp_find_unused_parameters": False,
    }


def choose_trainer_precision(spec: TrainerSpec) -> str:
    """Return the precision of this trainer's forward and backward passes on this device.

    Raises UnsupportedPrecision.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parameters = precision.parameters_in(spec.policy)
    chosen = precision.choose("trainer", spec.precision, parameters, device)
    if chosen.name == "float16" and spec.is_sharded:
        raise precision.UnsupportedPrecision(
            f"precision.trainer: float16 ({chosen.reason}) cannot be sharded; use float32, or "
            "trainer.sharding: ddp"
        )
    log.info("precision_chosen", policy=spec.policy.name, trainer=chosen.name, reason=chosen.reason)
    return chosen.name


def judged_elsewhere(*args: Any, **kwargs: Any) -> list[float | None]:
    """Raise RuntimeError: TRL requires a reward function, but rewards are stored."""
    raise RuntimeError("this trainer never asks for rewards")
