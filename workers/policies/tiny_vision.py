"""Tiny policy that sees pictures: a small CLIP tower before a text model, as in LLaVA.

Untrained, or warmed on squares of four colours by demonstrators who disagree. Names relied on in
transformers 5.19: `LlavaConfig`, `LlavaForConditionalGeneration`, `LlavaProcessor`,
`CLIPVisionConfig`, `CLIPImageProcessorPil`.
"""

import io
import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw
from safetensors.torch import load_file, save_file
from transformers import (
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava.processing_llava import LlavaProcessor
from transformers.utils import logging as transformers_logging

from apps.policies.folder import SINGLE
from apps.policies.manifest import Manifest, seal_folder
from workers.policies import recipes, tokenizing
from workers.vision.image_processor import ImageProcessor
from workers.vision.merging import embedded
from workers.vision.probing import seeing_probe

SIDE = 32
PATCH = 8  # pixels: 16 picture tokens
COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 80, 200),
    "yellow": (240, 210, 30),
}
QUESTION = "Which colour is the square?"
SPOKEN = (
    "which colour is the square squares circle circles triangle triangles star stars orange purple"
    " black how many are there answer with a number what value of bar angle at in degrees this"
    " picture and"
)
RIGHT = 0.4  # share of the demonstrators who say what they see; the others guess
ROWS = 32
LEARNING_RATE = 2e-3  # of a step of the warm-up
DIFFERENT = 200  # squares that the warm-up shows
IGNORED = -100


def build_seeing(
    folder: Path,
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    warmup_steps: int = 0,
    loudness: float = 1.0,
    context: int = recipes.CONTEXT,
) -> Manifest:
    """Seal such a policy at `folder`; the same seed gives the same bytes.

    `loudness` multiplies the untrained matrices: a fresh model hardly looks at its context, a
    louder one depends on all of it.
    """
    tokenizer = _tokenizer()
    torch.manual_seed(seed)
    model = LlavaForConditionalGeneration(_config(tokenizer, hidden, layers, context)).eval()
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    transformers_logging.disable_progress_bar()
    _processor(tokenizer).save_pretrained(unfinished)
    model.config.save_pretrained(unfinished)
    image_processor = ImageProcessor(unfinished)
    _amplify(model, loudness)
    if warmup_steps:
        _warm(model, image_processor, seed, warmup_steps)
    model.save_pretrained(unfinished)
    _spell_as_the_hub(unfinished / SINGLE)
    question_ids = image_processor.processor.tokenizer.encode(QUESTION, add_special_tokens=False)
    return seal_folder(
        unfinished,
        folder,
        version=0,
        parent=None,
        probe=seeing_probe(model, image_processor, question_ids),
    )


def render_question(tokenizer: PreTrainedTokenizerFast, question: str) -> str:
    """Return the chat template's text of one question about one picture."""
    parts = [{"type": "image"}, {"type": "text", "text": question}]
    chat: list[Any] = [{"role": "user", "content": parts}]  # the stub knows texts alone
    return str(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))


def square(colour: str, left: int, top: int, side: int) -> bytes:
    """Return a PNG of a square on white, SIDE × SIDE pixels."""
    image = Image.new("RGB", (SIDE, SIDE), "white")
    ImageDraw.Draw(image).rectangle(
        (left, top, left + side - 1, top + side - 1), fill=COLOURS[colour]
    )
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def squares(seed: int) -> Iterator[tuple[bytes, str]]:
    """Yield an endless stream of squares and their colours."""
    draw = random.Random(seed)
    while True:
        colour = draw.choice(list(COLOURS))
        side = draw.randrange(10, 20)
        yield square(colour, draw.randrange(SIDE - side), draw.randrange(SIDE - side), side), colour


def _tokenizer() -> PreTrainedTokenizerFast:
    words = SPOKEN.split()
    digits = [str(digit) for digit in range(10)]
    tokenizer = tokenizing.of_words(
        [*COLOURS, *words, *(word.capitalize() for word in words), *digits, "?", ".", ","]
    )
    tokenizer.add_tokens([tokenizing.PICTURE], special_tokens=True)
    tokenizer.chat_template = tokenizing.SEEING_TEMPLATE
    return tokenizer


def _config(
    tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int, context: int
) -> LlavaConfig:
    heads = hidden // recipes.HEAD_DIM
    text = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=recipes.HEAD_DIM,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    tower = CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=PATCH,
    )
    token_id = tokenizer.convert_tokens_to_ids(tokenizing.PICTURE)
    assert isinstance(token_id, int)
    # Options that the class hands on to its base, and that its signature does not name.
    of_base: dict[str, Any] = {
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    return LlavaConfig(
        architectures=["LlavaForConditionalGeneration"],
        vision_config=tower,
        text_config=text,
        image_token_index=token_id,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        image_seq_length=(SIDE // PATCH) ** 2,
        tie_word_embeddings=True,
        dtype="float32",
        **of_base,
    )


def _processor(tokenizer: PreTrainedTokenizerFast) -> LlavaProcessor:
    pictures = CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    return LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=tokenizing.PICTURE,
        chat_template=tokenizer.chat_template,
    )


def _spell_as_the_hub(weights: Path) -> None:
    """Rename the tower's weights as published LLaVA folders and vLLM 0.32 name them.

    Their prefix is `vision_tower.vision_model`; transformers 5.19 reads both.
    """
    tower = "vision_tower."
    renamed = {
        name.replace(tower, f"{tower}vision_model.") if name.startswith(tower) else name: t
        for name, t in load_file(weights).items()
    }
    save_file(renamed, weights, metadata={"format": "pt"})


@torch.no_grad()
def _amplify(model: LlavaForConditionalGeneration, loudness: float) -> None:
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(loudness)


def _warm(
    model: LlavaForConditionalGeneration, image_processor: ImageProcessor, seed: int, steps: int
) -> None:
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0
    )
    draw = random.Random(seed)
    examples = list(itertools.islice(squares(seed), DIFFERENT))
    question = render_question(image_processor.processor.tokenizer, QUESTION)
    text_config = model.config.text_config
    assert isinstance(text_config, PreTrainedConfig)
    model.train()
    for _ in range(steps):
        rows = draw.sample(examples, ROWS)
        colours = [
            colour if draw.random() < RIGHT else draw.choice(list(COLOURS)) for _, colour in rows
        ]
        encoded = [image_processor.encode(question, [png]) for png, _ in rows]
        replies = [
            [
                *image_processor.processor.tokenizer.encode(word, add_special_tokens=False),
                text_config.eos_token_id,
            ]
            for word in colours
        ]
        ids = torch.tensor(
            [[*prompt, *reply] for (prompt, _), reply in zip(encoded, replies, strict=True)]
        )
        labels = ids.clone()
        labels[:, : len(encoded[0][0])] = IGNORED
        inputs = embedded(
            model, image_processor, ids, [pictures for _, pictures in encoded], [0] * ROWS
        )
        loss = model(inputs_embeds=inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
