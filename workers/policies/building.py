"""Build a warmed tiny policy, once: its folder is named by a key of all that it depends on."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from apps.policies.manifest import DamagedWeights, Manifest, verify_folder
from apps.rewards import scorers
from apps.tasksets import generators
from apps.tasksets.rows import said_alone
from apps.tasksets.selection import chance
from workers.policies import sampling, warming
from workers.policies.recipes import Recipe
from workers.policies.saving import save_base

MEASURED_TASKS = 512
MEASURE_SEED = 1_000_003
LINES = 20  # progress lines of one build

Say = Callable[[str], None]


def ensure(recipe: Recipe, root: Path, seed: int, say: Say) -> tuple[Path, Manifest, bool]:
    """Return the sealed folder of this recipe and seed, its manifest, and whether it is new."""
    folder = root / f"{recipe.name}-{recipe_key(recipe, seed)}"
    if folder.exists():
        try:
            return folder, verify_folder(folder), False
        except DamagedWeights as damage:
            raise SystemExit(f"{folder} is damaged ({damage}); remove it and build again") from None
    return folder, _build(recipe, folder, seed, say), True


def recipe_key(recipe: Recipe, seed: int) -> str:
    """Return 12 hex digits over the recipe, the seed, and the libraries that affect the result."""
    parts = [recipe.describe(), str(seed), torch.__version__, transformers.__version__]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _build(recipe: Recipe, folder: Path, seed: int, say: Say) -> Manifest:
    tokenizer = recipe.tokenizer()
    model = warming.fresh(recipe, tokenizer, seed)
    say(
        f"{recipe.name}: {model.num_parameters():,} parameters, {recipe.warmup_steps} warm-up steps"
    )
    warming.warm_policy(model, tokenizer, recipe, seed, _progress(recipe, say))
    say(
        f"{recipe.name}: mean reward of the warm policy {mean_reward(model, tokenizer, recipe):.3f}"
    )
    question, _ = next(recipe.demonstrate(seed))
    return save_base(model, tokenizer, folder, question)


def mean_reward(
    model: transformers.PreTrainedModel,
    tokenizer: transformers.PreTrainedTokenizerFast,
    recipe: Recipe,
) -> float:
    """Return the mean score of freshly sampled answers to the tasks of the recipe's generator."""
    tasks = list(generators.find_generator(recipe.name)(MEASURED_TASKS, MEASURE_SEED))
    prompts = [warming.prompt_ids(tokenizer, said_alone(task)) for task in tasks]
    seeds = [chance.derive_seed("measure", MEASURE_SEED, n) for n in range(len(prompts))]
    batch = sampling.sample_batch(model, prompts, recipe.max_tokens, seeds)
    texts = [str(tokenizer.decode(ids, skip_special_tokens=True)) for ids, _ in batch.rows()]
    scorer = scorers.find_scorer(recipe.name)
    pairs = zip(tasks, texts, strict=True)
    values = [scorer.of(text, task).value for task, text in pairs]
    total = sum(value for value in values if value is not None)
    return total / len(values)


def _progress(recipe: Recipe, say: Say) -> warming.Report:
    started = time.monotonic()
    every = max(1, recipe.warmup_steps // LINES)

    def report(step: int, loss: float) -> None:
        if step % every == 0 or step == recipe.warmup_steps:
            seconds = time.monotonic() - started
            remaining_s = seconds / step * (recipe.warmup_steps - step)
            say(
                f"{recipe.name}: step {step}/{recipe.warmup_steps}, loss {loss:.3f}, {seconds:.0f}"
                f" s, about {remaining_s:.0f} s left"
            )

    return report
