"""Old samples are useful for training only if their logprobs are stored.

A policy that was warmed on contradicting demonstrators learns to sort three digits from samples
that are up to sixteen updates old. With stored logprobs, the ratio limits how far each sample moves
the policy. Without them, each ratio counts as one, as if the trainer recomputed it with its own
weights, and the policy moves further and further away from anything useful.
"""

import copy
import dataclasses
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from apps.tasksets.selection import chance
from workers.policies import recipes, warming
from workers.policies.sampling import sample_batch
from workers.policies.saving import save_base
from workers.trainer.collate import Row
from workers.trainer.host import TrainerHost
from workers.trainer.spec import Loss, Objective, TrainerSpec

DIGITS = 3
GROUPS = 8
GROUP_SIZE = 8
UPDATES = 160
REFRESH_EVERY = 16
ASKED = 256  # number of questions to measure a policy

pytestmark = pytest.mark.slow


@dataclasses.dataclass(frozen=True)
class Warm:
    """The initial policy, in memory and on disk."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    folder: Path

    def ask(
        self, model: PreTrainedModel, questions: list[str], seed: int
    ) -> list[tuple[list[int], list[int], list[float], float]]:
        """Return (prompt ids, reply ids, their logprobs, 1 for a sorted answer) per question."""
        prompts = [warming.prompt_ids(self.tokenizer, question) for question in questions]
        seeds = [chance.derive_seed(seed, n) for n in range(len(prompts))]
        said = sample_batch(model, prompts, DIGITS + 2, seeds).rows()
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids, _ in said]
        right = [
            float(text == "".join(sorted(question)))
            for text, question in zip(texts, questions, strict=True)
        ]
        return [
            (prompt, *own, reward) for prompt, own, reward in zip(prompts, said, right, strict=True)
        ]

    def accuracy(self, model: PreTrainedModel) -> float:
        return statistics.fmean(
            reward for *_, reward in self.ask(model, questions(ASKED, seed=99), seed=5)
        )


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Warm:
    recipe = dataclasses.replace(
        recipes.find_recipe("sort"),
        hidden=64,
        layers=2,
        warmup_steps=200,
        demonstrate=demonstrators,
    )
    tokenizer = recipe.tokenizer()
    model = warming.fresh(recipe, tokenizer, seed=0)
    warming.warm_policy(model, tokenizer, recipe, 0, lambda step, loss: None)
    folder = tmp_path_factory.mktemp("policies") / "warm"
    save_base(model, tokenizer, folder, "312")
    return Warm(model, tokenizer, folder)


def test_stale_data_trains_with_stored_logprobs_and_fails_without(warm, tmp_path):
    before = warm.accuracy(warm.model)
    stored, dropped = (trained(warm, tmp_path / str(drops), drops=drops) for drops in (False, True))
    assert stored > before + 0.15
    assert dropped < min(
        before + 0.1, stored - 0.15
    )  # the exact value below depends on the machine's rounding


def trained(warm: Warm, output: Path, drops: bool) -> float:
    """Return the accuracy after the updates; with `drops`, stored logprobs are ignored."""
    options = {
        "clip_low": 0.2,
        "clip_high": 0.28,
        "dual_clip": None,
        "policy_gradient_fallback": drops,
    }
    objective = Objective(Loss("ppo", options), "token-mean")
    host = TrainerHost(
        TrainerSpec(
            warm.folder,
            output,
            UPDATES,
            GROUPS * GROUP_SIZE,
            learning_rate=1e-3,
            objective=objective,
        )
    )
    host.start()
    try:
        explorer = copy.deepcopy(warm.model)
        for update in range(UPDATES):
            if update % REFRESH_EVERY == 0:
                explorer.load_state_dict(host.trainer.model.state_dict())
            host.update(judged(warm, explorer, update))
        explorer.load_state_dict(host.trainer.model.state_dict())
        return warm.accuracy(explorer)
    finally:
        host.stop()


def judged(warm: Warm, explorer: PreTrainedModel, update: int) -> list[Row]:
    """Return the rows of one update's groups with their standard scores as advantages."""
    asked = [question for question in questions(GROUPS, seed=update) for _ in range(GROUP_SIZE)]
    answers = warm.ask(explorer, asked, seed=update)
    rows = []
    for start in range(0, len(answers), GROUP_SIZE):
        group = answers[start : start + GROUP_SIZE]
        rewards = [reward for *_, reward in group]
        mean = statistics.fmean(rewards)
        deviation = statistics.stdev(rewards)
        for prompt, said, logprobs, reward in group:
            score = (reward - mean) / (deviation + 1e-6)
            rows.append(Row(tuple(prompt), tuple(said), (1,) * len(said), tuple(logprobs), score))
    return rows


def questions(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [f"{draw.randrange(10**DIGITS):0{DIGITS}d}" for _ in range(count)]


def demonstrators(seed: int) -> Iterator[tuple[str, str]]:
    """Yield demonstrations: 40 % sort upwards, 30 % downwards, 30 % copy."""
    draw = random.Random(seed)
    while True:
        digits = f"{draw.randrange(10**DIGITS):0{DIGITS}d}"
        behaviour = draw.random()
        if behaviour < 0.4:
            yield digits, "".join(sorted(digits))
        elif behaviour < 0.7:
            yield digits, "".join(sorted(digits, reverse=True))
        else:
            yield digits, digits
