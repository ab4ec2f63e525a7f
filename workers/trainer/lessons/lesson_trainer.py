"""The trainer of preference runs (dpo, kto, reward_model): transformers' Trainer at the gate of all our trainers.

Why not TRL's DPOTrainer, KTOTrainer and RewardTrainer: they read and tokenise a whole data set before the first update
and draw from it in their own order, whereas a batch here is recorded in rows before it is trained on; and their losses
are means over a micro-batch, so that a gradient changes with its size (KTO's baseline, too, is one of the micro-batch).
Their losses are what `workers.algorithms.losses.preferences` computes, divided by the whole update's totals. What is
kept of the library is what makes resuming bit-exact: optimizer, schedule, random state, checkpoints.

Names relied on, transformers 5.19: `Trainer` (constructor, `get_batch_samples` called once an update with the number of
micro-batches, `compute_loss`, `loss_is_scaled_for_ga`).
"""

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from workers.algorithms.losses.preferences import mismatched_kl
from workers.algorithms.tokens import RowLoss
from workers.trainer import checkpoint, forward, lora, reference, tuning
from workers.trainer.gate import Gate
from workers.trainer.lessons import objective, rows
from workers.trainer.report import Recorder
from workers.trainer.seam import Batch, StepGuard, common_arguments
from workers.trainer.spec import TrainerSpec

REWARD_MODEL = "bradley_terry"


class LessonTrainer(Trainer):
    """Learns from pairs or thumbs. `spec.rows_per_step` counts lessons; `batch.rows` are `lessons.rows`' Pair or Judged."""

    loss_is_scaled_for_ga = True  # every micro-batch gives its share of the update's loss

    def __init__(self, spec: TrainerSpec, gate: Gate[Batch], recorder: Recorder, staging: Path) -> None:
        self.spec, self.gate, self.recorder = spec, gate, recorder
        self.loss = spec.objective.loss
        self.batch = Batch((), spec.knobs)
        self.is_finite = torch.ones((), dtype=torch.bool)
        super().__init__(
            model=model_of(spec),
            args=arguments(spec, staging),
            train_dataset=Dataset.from_dict({"ticket": [0] * (spec.planned_steps * passes_of(spec))}),
            data_collator=lambda tickets: {},
            processing_class=AutoTokenizer.from_pretrained(spec.policy, local_files_only=True),
            callbacks=[StepGuard(self)],
        )
        self.remove_callback(PrinterCallback)
        self.reference = None
        if not self.scores_texts:
            has_adapters = spec.lora is not None
            self.reference = reference.build(spec.objective.reference, self.model, has_adapters)
            self.reference.heed = gate.heed

    @property
    def scores_texts(self) -> bool:
        return self.loss.name == REWARD_MODEL

    # -- one update -------------------------------------------------------------------------------------------------

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[list, None]:
        """Block until a batch is granted; its micro-batches. The iterator's tickets say nothing and stay where they are."""
        self.batch = self.gate.take()
        tuning.set_learning_rate(self.lr_scheduler, self.optimizer, self.batch.knobs.learning_rate)
        pad, micro = self.processing_class.pad_token_id, self.spec.micro_batch_rows
        parts = [rows.tensors(some, pad) for some in rows.cut(self.batch.rows, micro)]
        if len(parts) != num_batches:
            raise ValueError(f"{len(self.batch.rows)} lessons make {len(parts)} micro-batches, the plan is {num_batches}")
        parts = [self._on_device(part) for part in parts]
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.args.device)
        # Another run in this process may have used the generator meanwhile.
        torch.manual_seed(self.spec.seed * 1_000_003 + self.state.global_step)
        if self.reference:
            for part in parts:
                part["reference"] = self._reference_logprobs(part)
        self.baseline = self._baseline() if self.loss.name == "kto" else None
        return parts, None

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """This micro-batch's share of the update's loss. Raises Interrupted, see Gate.grant."""
        self.gate.heed()
        with self.accelerator.autocast():
            loss = self._scored(model, inputs) if self.scores_texts else self._judged(model, inputs)
        self.recorder.observe(
            {name: values[:, None] for name, values in loss.figures.items()}, torch.ones_like(loss.values)[:, None]
        )
        share = loss.share(len(self.batch.rows))
        self.is_finite &= share.detach().isfinite()
        return share

    def _judged(self, model: torch.nn.Module, inputs: dict[str, Any]) -> RowLoss:
        policy, _ = forward.score(model, inputs)
        tokens = objective.tokens_of(policy, inputs["reference"], inputs)
        return objective.token_loss(self.loss.name, dict(self.loss.options), tokens, inputs, self.baseline)

    def _scored(self, model: torch.nn.Module, inputs: dict[str, Any]) -> RowLoss:
        ids, attention = rows.whole(inputs, self.processing_class.pad_token_id)
        scores = model(input_ids=ids, attention_mask=attention).logits[:, 0].float()
        return objective.bradley_terry(scores, inputs["margins"])

    @torch.no_grad()
    def _baseline(self) -> torch.Tensor:
        """KTO's z of the whole update, before it changes anything."""
        total = torch.zeros((), device=self.args.device)
        for some in rows.cut(rows.mismatched(self.batch.rows), self.spec.micro_batch_rows):
            part = self._on_device(rows.tensors(some, self.processing_class.pad_token_id))
            with self.accelerator.autocast():
                policy, _ = forward.score(self.model, part)
            tokens = objective.tokens_of(policy.float(), self._reference_logprobs(part), part)
            total += mismatched_kl(tokens, len(self.batch.rows))
        return total

    def _reference_logprobs(self, part: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.reference.logprobs(self.model, part, len(part["prompt_ids"]), self.accelerator.autocast)

    def _on_device(self, part: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self.args.device) for name, tensor in part.items()}

    # -- what the guard of all our trainers calls ----------------------------------------------------------------------

    def close_update(self) -> None:
        """What follows an update whether it was applied or not."""
        self.recorder.tell(lessons=len(self.batch.rows))
        if self.baseline is not None:
            self.recorder.tell(kto_baseline=float(self.baseline))
        if self.reference:
            self.reference.follow(self.model, self.state.global_step)

    def give_cores_back(self) -> None:
        """It has taken none: a run that samples nothing takes turns with nobody."""

    def save_state(self, folder: Path) -> None:
        """Write what the objective has become by now: only a moving reference ever changes."""
        (folder / checkpoint.STATE).write_text("{}")
        if self.reference:
            self.reference.save(folder)

    def restore_state(self, folder: Path) -> None:
        if self.reference:
            self.reference.restore(folder)


def passes_of(spec: TrainerSpec) -> int:
    """Forward passes of one update; a pair is two rows and stays together."""
    each = 1 if spec.objective.loss.name == "kto" else 2
    return rows.passes(spec.rows_per_step, max(1, (spec.micro_batch_rows or each * spec.rows_per_step) // each))


def model_of(spec: TrainerSpec) -> torch.nn.Module:
    """The policy with a head that gives logprobs, and adapters where they are trained; or the folder's own scalar head.

    Raises ValueError for a reward model with adapters: its head would be trained and never published.
    """
    how = {"dtype": "float32", "local_files_only": True, "use_safetensors": True}
    if spec.objective.loss.name == REWARD_MODEL:
        if spec.lora:
            raise ValueError("lora: a reward model trains all its weights, its new head with them; remove it")
        return AutoModelForSequenceClassification.from_pretrained(spec.policy, **how)
    model = AutoModelForCausalLM.from_pretrained(spec.policy, **how)
    forward.prepare(model)
    if spec.lora is None:
        return model
    if torch.cuda.is_available():
        model.enable_input_require_grads()  # frozen embeddings would cut recomputed layers off from the loss
    torch.manual_seed(spec.seed)
    return get_peft_model(model, lora.config_of(spec.lora))


def arguments(spec: TrainerSpec, staging: Path) -> TrainingArguments:
    """One ticket is one micro-batch, and says nothing."""
    return TrainingArguments(
        **common_arguments(spec, staging), per_device_train_batch_size=1, gradient_accumulation_steps=passes_of(spec),
        remove_unused_columns=False,
    )  # fmt: skip
