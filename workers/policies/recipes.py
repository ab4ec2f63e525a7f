"""Recipes of the tiny policies: tokenizer, size, demonstrations and warm-up."""

import difflib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from transformers import PreTrainedTokenizerFast, Qwen3Config

from apps.tasksets import tone_language
from workers.policies import demonstrations, tokenizing

HEAD_DIM = 32  # the smallest that every engine's attention kernels take
CONTEXT = 128  # tokens


@dataclass(frozen=True)
class Recipe:
    """Everything that a build depends on, besides its seed."""

    name: str
    hidden: int
    layers: int
    warmup_steps: int  # SFT steps
    rows: int  # per step
    learning_rate: float
    max_tokens: int  # longest sampled reply when measuring
    tokenizer: Callable[[], PreTrainedTokenizerFast]
    demonstrate: Callable[[int], Iterator[tuple[str, str]]]

    def config(self, tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
        """Return a Qwen3 with tied embeddings, sized by the recipe."""
        heads = self.hidden // HEAD_DIM
        return Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=self.hidden,
            intermediate_size=4 * self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=HEAD_DIM,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype="float32",
        )

    def describe(self) -> str:
        """Return the recipe as text, equal exactly when two recipes build the same policy."""
        plain = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if not callable(getattr(self, f.name))
        }
        tokenizer = self.tokenizer()
        plain["tokenizer"] = tokenizer.backend_tokenizer.to_str() + tokenizer.chat_template
        stream = self.demonstrate(0)
        plain["demonstrations"] = [next(stream) for _ in range(200)]
        return json.dumps(plain, sort_keys=True)


def _digits() -> PreTrainedTokenizerFast:
    return tokenizing.of_characters("0123456789 +-=")


def _tone_words() -> PreTrainedTokenizerFast:
    language = tone_language
    texts = [*language.MESSAGES, *language.PROBLEMS, *language.OBJECTS]
    texts += [
        text
        for by_manner in language.SENTENCES.values()
        for words in by_manner.values()
        for text in words
    ]
    spoken = " ".join(text.format(object="", problem="") for text in texts)
    return tokenizing.of_words(sorted(set(language.split_tone_tokens(spoken))))


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("sort", 128, 3, 400, 64, 2e-3, 8, _digits, demonstrations.sort),
        Recipe("tone", 96, 2, 500, 64, 3e-3, 48, _tone_words, demonstrations.tone),
    )
}


def find_recipe(name: str) -> Recipe:
    """Return the recipe of that name; raises LookupError naming the nearest one."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(RECIPES)}"
    raise LookupError(f"no policy recipe {name!r}; {hint}")
