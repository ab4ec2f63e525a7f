"""Training of a scalar head from pairs of texts, over the base policy, with TRL's RewardTrainer.

A head is trained once from beginning to end, in a process that ends with it; nothing of it is
recorded, paused or resumed. Reward model runs, whose batches are rows before they are trained on,
use `workers.trainer.lessons`, which explains why.

Names relied on, TRL 1.16: `RewardConfig`, `RewardTrainer` (constructor with a model and a data set
of `chosen_ids` and `rejected_ids`, which it takes as they are; `train`). Its loss is the mean of
-log σ(score chosen - score rejected).
"""

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.trainer_callback import PrinterCallback
from trl import RewardConfig, RewardTrainer

from apps.feedback.rater_model.heads import Reply
from apps.runs.models import Run
from workers.trainer.buffer_grpo_trainer import common_arguments
from workers.trainer.dropout import disable_dropout
from workers.trainer.lessons import reward_model
from workers.trainer.lessons.tokenization import LessonTokenizer
from workers.trainer.spec import TrainerSpec

UPDATES = 120
PAIRS = 32
LEARNING_RATE = 3e-4
WARMUP = 10
Ids = list[int]


def fit_head(run: Run, pool: Sequence[tuple[Reply, Reply]], final: Path) -> None:
    """Train on pairs sampled from the pool of (better, worse), and seal the head at `final`.

    Raises ValueError when no pair is short enough for the policy, and weights.NotFinite.
    """
    lesson_tokenizer = LessonTokenizer(run.policy.folder, run.policy.context_tokens, scores=True)
    pairs = sample_pairs(encode_pairs(lesson_tokenizer, pool), random.Random(len(pool)))
    final.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
    try:
        base = reward_model.ensure_base(Path(run.policy.folder), work / "base", run.settings.seed)
        trainer = build_reward_trainer(base, lesson_tokenizer, pairs, run.settings.seed, work)
        trainer.train()
        assert isinstance(trainer.model, PreTrainedModel)
        reward_model.publish_reward_model(trainer.model, base, final, 1, None)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def encode_pairs(
    lesson_tokenizer: LessonTokenizer, pool: Sequence[tuple[Reply, Reply]]
) -> list[tuple[Ids, Ids]]:
    """Encode the pairs, prompt and answer, and leave out those longer than the context.

    Raises ValueError for none.
    """
    replies = dict.fromkeys(reply for pair in pool for reply in pair)
    ids = {
        reply: [*lesson_tokenizer.prompt(reply.messages), *lesson_tokenizer.answer(reply.text)]
        for reply in replies
    }
    longest = lesson_tokenizer.context or max(map(len, ids.values()))
    encoded = [
        (ids[better], ids[worse])
        for better, worse in pool
        if max(len(ids[better]), len(ids[worse])) <= longest
    ]
    if not encoded:
        raise ValueError(f"none of {len(pool)} pairs fits the policy's context of {longest} tokens")
    return encoded


def sample_pairs(pairs: list[tuple[Ids, Ids]], chance: random.Random) -> Dataset:
    """Return as many sampled pairs as all steps take, some of them several times."""
    sampled = chance.choices(pairs, k=UPDATES * PAIRS)
    return Dataset.from_dict(
        {
            "chosen_ids": [better for better, _ in sampled],
            "rejected_ids": [worse for _, worse in sampled],
        }
    )


def build_reward_trainer(
    base: Path, lesson_tokenizer: LessonTokenizer, pairs: Dataset, seed: int, work: Path
) -> RewardTrainer:
    spec = TrainerSpec(
        policy=base,
        output=work,
        planned_steps=UPDATES,
        rows_per_step=PAIRS,
        learning_rate=LEARNING_RATE,
        warmup_steps=WARMUP,
        seed=seed,
    )
    model = AutoModelForSequenceClassification.from_pretrained(
        base, dtype="float32", local_files_only=True, use_safetensors=True
    )
    disable_dropout(model)
    # The head reads the score at the last token that is no padding, by the token that its
    # configuration names. The library would take the tokenizer's, or its end token.
    lesson_tokenizer.tokenizer.pad_token_id = model.config.pad_token_id
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(
            **common_arguments(spec, work), per_device_train_batch_size=PAIRS, max_length=None
        ),
        train_dataset=pairs,
        processing_class=lesson_tokenizer.tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
