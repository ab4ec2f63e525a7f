"""Warm-up: supervised fine-tuning of a fresh model on a recipe's demonstrations."""

import itertools
from collections.abc import Callable, Iterator

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen3ForCausalLM

from workers.fast_linear import use_fast_linear
from workers.policies.recipes import Recipe

LR_WARMUP = 20  # steps
IGNORED = -100  # label of prompt and padding tokens
Report = Callable[[int, float], None]


def fresh(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, seed: int) -> PreTrainedModel:
    """Return the recipe's model with random weights."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(recipe.config(tokenizer))


def warm_policy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    seed: int,
    report: Report,
) -> None:
    """Train in place; `report(steps done, loss)` after every step."""
    use_fast_linear(model)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, recipe.warmup_steps)
    )
    batches = _batches(recipe, tokenizer, seed)
    model.train()
    for step in range(1, recipe.warmup_steps + 1):
        ids, attention, labels = next(batches)
        loss = model(input_ids=ids, attention_mask=attention, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        report(step, loss.item())
    model.eval()


def learning_rate_factor(step: int, steps: int) -> float:
    """Return linear rise over the first steps, constant, and linear fall over the second half."""
    return min(1.0, (step + 1) / LR_WARMUP, 2 * (steps - step) / steps)


def _batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, seed: int
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield right-padded ids, attention mask and labels, each (rows, longest) int64.

    Labels cover the reply alone.
    """
    stream = recipe.demonstrate(seed)
    while True:
        rows = [_tokens(tokenizer, *pair) for pair in itertools.islice(stream, recipe.rows)]
        longest = max(len(prompt) + len(reply) for prompt, reply in rows)
        padded = [(prompt, reply, longest - len(prompt) - len(reply)) for prompt, reply in rows]
        yield (
            torch.tensor(
                [prompt + reply + [tokenizer.pad_token_id] * gap for prompt, reply, gap in padded]
            ),
            torch.tensor([[1] * (longest - gap) + [0] * gap for _, _, gap in padded]),
            torch.tensor(
                [[IGNORED] * len(prompt) + reply + [IGNORED] * gap for prompt, reply, gap in padded]
            ),
        )


def _tokens(
    tokenizer: PreTrainedTokenizerFast, question: str, text: str
) -> tuple[list[int], list[int]]:
    """Return prompt ids as the chat template puts them, and reply ids with the end token."""
    return prompt_ids(tokenizer, question), [
        *tokenizer.encode(text, add_special_tokens=False),
        tokenizer.eos_token_id,
    ]


def prompt_ids(tokenizer: PreTrainedTokenizerFast, question: str) -> list[int]:
    """Return the ids of one user message, ready to be answered."""
    messages = [{"role": "user", "content": question}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert isinstance(ids, list)
    return [token for token in ids if isinstance(token, int)]
