"""Trainer of preference runs (dpo, kto, reward_model), based on transformers' Trainer.

TRL's DPOTrainer, KTOTrainer and RewardTrainer do not fit. They read and tokenise a whole data set
before the first step and draw from it in their own order, whereas our batches are recorded in
rows before training. Their losses are means over a micro-batch, so a gradient changes with its size
(so does KTO's baseline). Here `workers.algorithms.losses.preferences` computes the same losses,
divided by the whole step's totals. The library provides what makes resuming bit-exact: optimizer,
schedule, random state, checkpoints.

Names used from transformers 5.19: `Trainer` (constructor, `get_batch_samples` called once a step
with the number of micro-batches, `compute_loss`, `loss_is_scaled_for_ga`).
"""

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from workers.algorithms.losses.preferences import mismatched_kl
from workers.algorithms.tokens import RowLoss
from workers.trainer import checkpoint, forward, lora, reference, tuning
from workers.trainer.batch_queue import BatchSource
from workers.trainer.buffer_grpo_trainer import StepGuard, common_arguments
from workers.trainer.dropout import disable_dropout
from workers.trainer.lessons import objective, rows
from workers.trainer.ranked import Batch, RankedTrainer
from workers.trainer.ranks import ALONE, Ranks
from workers.trainer.report import Recorder
from workers.trainer.spec import TrainerSpec

REWARD_MODEL = "bradley_terry"


class LessonTrainer(RankedTrainer[rows.Lesson]):
    """Trainer that learns from pairs or thumbs.

    `spec.rows_per_step` counts lessons; `batch.rows` are Pair or JudgedAnswer of `lessons.rows`.
    """

    loss_is_scaled_for_ga = True  # every micro-batch gives its share of the step's loss

    def __init__(
        self,
        spec: TrainerSpec,
        batch_queue: BatchSource[Batch[rows.Lesson]],
        recorder: Recorder,
        staging: Path,
        ranks: Ranks = ALONE,
    ) -> None:
        self.spec = spec
        self.batch_queue = batch_queue
        self.recorder = recorder
        self.ranks = ranks
        self.loss = spec.objective.loss
        self.batch = Batch((), spec.knobs)
        self.is_finite = torch.ones((), dtype=torch.bool)
        tickets = spec.planned_steps * forward_passes(spec) * spec.processes
        super().__init__(
            model=build_lesson_model(spec),
            args=lesson_arguments(spec, staging),
            train_dataset=Dataset.from_dict({"ticket": [0] * tickets}),
            data_collator=lambda tickets: {},
            processing_class=AutoTokenizer.from_pretrained(spec.policy, local_files_only=True),
            callbacks=[StepGuard(self)],
        )
        self.remove_callback(PrinterCallback)
        self.reference = None
        if not self.scores_texts:
            has_adapters = spec.lora is not None
            self.reference = reference.build_reference(
                spec.objective.reference, self.model, has_adapters
            )
            self.reference.raise_if_interrupted = batch_queue.raise_if_interrupted

    @property
    def scores_texts(self) -> bool:
        return self.loss.name == REWARD_MODEL

    @property
    def pad_id(self) -> int:
        """Return the token that fills rows.

        A reward model finds the ends of texts by it. Anything else reads masks, so any token will
        do: many tokenizers (Llama 3, Mistral) have none for padding.
        """
        if self.scores_texts:
            padding: int = forward.unwrap_policy(self.model).config.pad_token_id
            return padding
        return self.processing_class.pad_token_id or 0

    # -- one step

    def get_batch_samples(
        self, epoch_iterator: Any, num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, torch.Tensor]], None]:
        """Block until a batch is granted, and return its micro-batches.

        The placeholders of `epoch_iterator` are neither read nor consumed.
        """
        self.batch = self.batch_queue.get()
        self.take_cores()
        tuning.set_learning_rate(self.lr_scheduler, self.optimizer, self.batch.knobs.learning_rate)
        pad = self.pad_id
        micro = self.spec.micro_batch_rows
        parts = [
            rows.tensors(some, pad) for some in rows.cut(self._rank_lessons(self.batch.rows), micro)
        ]
        if len(parts) != num_batches:
            raise ValueError(
                f"{len(self.batch.rows)} lessons make {len(parts)} micro-batches, the plan is"
                f" {num_batches}"
            )
        parts = [self._on_device(part) for part in parts]
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.args.device)
        # Another run in this process may have used the generator meanwhile.
        torch.manual_seed(self.spec.seed * 1_000_003 + self.state.global_step)
        if self.reference:
            for part in parts:
                part["reference"] = self._reference_logprobs(part)
        self.baseline = self._baseline() if self.loss.name == "kto" else None
        return parts, None

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """Return this micro-batch's share of the step's loss.

        Raises Interrupted (see BatchQueue.put).
        """
        self.batch_queue.raise_if_interrupted()
        with self.accelerator.autocast():
            loss = (
                self._scored(model, inputs)
                if self.scores_texts
                else self._loss_of_inputs(model, inputs)
            )
        self.recorder.observe(
            {name: values[:, None] for name, values in loss.metrics.items()},
            torch.ones_like(loss.values)[:, None],
        )
        share = loss.share(len(self.batch.rows))
        self.is_finite &= share.detach().isfinite()
        return share * self.ranks.size  # torch takes the mean over ranks

    def _rank_lessons(self, lessons: Sequence[rows.Lesson]) -> list[rows.Lesson]:
        return rows.choose_rank_lessons(lessons, self.ranks.rank, self.ranks.size)

    def _loss_of_inputs(self, model: torch.nn.Module, inputs: dict[str, Any]) -> RowLoss:
        policy, _ = forward.score(model, inputs)
        tokens = objective.build_lesson_tokens(policy, inputs["reference"], inputs)
        return objective.token_loss(
            self.loss.name, dict(self.loss.options), tokens, inputs, self.baseline
        )

    def _scored(self, model: torch.nn.Module, inputs: dict[str, Any]) -> RowLoss:
        ids, attention = rows.join_prompt_and_completion(inputs, self.pad_id)
        scores = model(input_ids=ids, attention_mask=attention).logits[:, 0].float()
        return objective.bradley_terry(scores, inputs["margins"])

    @torch.no_grad()
    def _baseline(self) -> torch.Tensor:
        """Return KTO's z of the whole step, computed before the weights change."""
        total = torch.zeros((), device=self.args.device)
        config = forward.unwrap_policy(self.model).config.get_text_config()
        context = getattr(config, "max_position_embeddings", None)
        mismatched = self._rank_lessons(rows.mismatched(self.batch.rows, context))
        for some in rows.cut(mismatched, self.spec.micro_batch_rows):
            part = self._on_device(rows.tensors(some, self.pad_id))
            with self.accelerator.autocast():
                policy, _ = forward.score(self.model, part)
            tokens = objective.build_lesson_tokens(
                policy.float(), self._reference_logprobs(part), part
            )
            total += mismatched_kl(tokens, len(self.batch.rows))
        return torch.stack(self.ranks.gathered(total)).sum()

    def _reference_logprobs(self, part: dict[str, torch.Tensor]) -> torch.Tensor:
        assert self.reference is not None
        return self.reference.logprobs(
            self.model, part, len(part["prompt_ids"]), self.accelerator.autocast
        )

    def _on_device(self, part: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self.args.device) for name, tensor in part.items()}

    # -- called by StepGuard

    def close_update(self) -> None:
        """Record the metrics and let the reference follow, for an applied or a skipped step."""
        self.give_cores_back()
        self.share_metrics()
        self.recorder.tell(lessons=len(self.batch.rows))
        if self.baseline is not None:
            self.recorder.tell(kto_baseline=float(self.baseline))
        if self.reference:
            self.reference.follow(self.model, self.state.global_step)

    def fresh_model(self) -> torch.nn.Module:
        return build_lesson_model(self.spec)

    def save_state(self, folder: Path) -> None:
        """Write the state of the objective: only a moving reference changes."""
        if self.ranks.is_first:
            (folder / checkpoint.STATE).write_text("{}")
        if self.reference:
            self.reference.save(folder, self.ranks.is_first)

    def restore_state(self, folder: Path) -> None:
        if self.reference:
            self.reference.restore(folder)


def forward_passes(spec: TrainerSpec) -> int:
    """Return the number of forward passes of one step; a pair is two rows of the same pass."""
    rows_per_lesson = 1 if spec.objective.loss.name == "kto" else 2
    lessons = spec.rows_per_process
    return rows.passes(
        lessons, max(1, (spec.micro_batch_rows or rows_per_lesson * lessons) // rows_per_lesson)
    )


def build_lesson_model(spec: TrainerSpec) -> torch.nn.Module:
    """Return the policy with a head for logprobs, and adapters if they are trained.

    For a reward model, the folder's own scalar head is kept. Raises ValueError for a reward model
    with adapters, because its head would be trained and never published.
    """
    how = {"dtype": "float32", "local_files_only": True, "use_safetensors": True}
    if spec.objective.loss.name == REWARD_MODEL:
        if spec.lora:
            raise ValueError(
                "lora: a reward model trains all of its weights and a new head: remove it"
            )
        scorer: torch.nn.Module = AutoModelForSequenceClassification.from_pretrained(
            spec.policy, **how
        )
        disable_dropout(scorer)
        return scorer
    model = AutoModelForCausalLM.from_pretrained(spec.policy, **how)
    forward.prepare_scoring(model)
    if spec.lora is None:
        return model
    if torch.cuda.is_available():
        # with frozen embeddings, recomputed layers would get no gradient
        model.enable_input_require_grads()
    torch.manual_seed(spec.seed)
    return get_peft_model(model, lora.build_lora_config(spec.lora))


def lesson_arguments(spec: TrainerSpec, staging: Path) -> TrainingArguments:
    """Return the library's arguments: one item of its data loader is one micro-batch."""
    return TrainingArguments(
        **common_arguments(spec, staging),
        per_device_train_batch_size=1,
        gradient_accumulation_steps=forward_passes(spec),
        remove_unused_columns=False,
    )
