"""Estimate of a run's memory, part by part, from its configuration and its policy's size.

Nothing is measured. docs/deploy.md, "One GPU", has the formula and the tables of the presets.
"""

import math
from dataclasses import dataclass
from typing import Literal

from apps.policies.shape import Shape
from apps.runs.config import RunConfig

FLOAT32 = 4
SIXTEEN_BITS = 2  # bytes
# Bytes of both of AdamW's moments for each trained parameter.
MOMENT_BYTES = {"adamw": 2 * FLOAT32, "adamw_8bit": 2}
COLUMNS_AT_ONCE = 1 << 15  # of the vocabulary, of which logits exist at once on a GPU
LOGITS_AT_ONCE = 1 << 22  # logits that exist at once on a CPU, of all rows together
# Numbers that a layer keeps for each token until its gradient is there, where it is not computed
# again: by its width and its inner width (each distinct token once), and by the width of its
# queries (each token of each row). Counted on a Llama.
KEPT_BY_WIDTH = 8
KEPT_BY_INNER = 4
KEPT_BY_ATTENTION = 4
# Bytes for each token, on a GPU, of the one layer that is computed again: by its width, and by its
# inner width.
AGAIN_BY_WIDTH = 32
AGAIN_BY_INNER = 16
CUDA_BYTES = 1.5e9  # a process's CUDA context, kernels and graphs
CARD_BYTES = 80e9
# What one pass of a sampling run may keep for its backward pass where the run sets no size itself.
PASS_BYTES = {"cpu": 1 << 30, "gpu": 16 << 30}

Holder = Literal["trainer", "engine"]


@dataclass(frozen=True)
class Part:
    """Part of the memory; `sampling`, `updating`: the phases in which it is there."""

    name: str
    holder: Holder
    bytes: int
    sampling: bool = True
    updating: bool = True


@dataclass(frozen=True)
class Memory:
    """Estimate of all parts; `is_whole`: the policy's layers are known, so no part is missing."""

    parts: tuple[Part, ...]
    is_whole: bool

    def held_by(self, holder: Holder) -> int:
        """Return all parts of a trainer or an engine together."""
        return sum(part.bytes for part in self.parts if part.holder == holder)

    def named(self, name: str, holder: Holder) -> int:
        """Return the part of that name; 0 if there is none."""
        return sum(part.bytes for part in self.parts if (part.name, part.holder) == (name, holder))

    @property
    def sampling(self) -> int:
        """Return bytes of trainer and engine on one GPU while rollouts are sampled."""
        return sum(part.bytes for part in self.parts if part.sampling)

    @property
    def updating(self) -> int:
        """Return bytes of trainer and engine on one GPU in a step."""
        return sum(part.bytes for part in self.parts if part.updating)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a policy: number of weights, shape of its layers if known, context in tokens."""

    parameters: int
    shape: Shape | None
    context: int


def estimate_memory(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> Memory:
    """Return the parts of a run's trainer, and of its engine where it samples.

    On a GPU both are taken to share one card of CARD_BYTES. Of a trainer of several processes the
    parts are those of one process.
    """
    parts = [
        *_trainer(plan, sizes, on_gpu),
        *(_engine(plan, sizes, on_gpu) if plan.samples else []),
    ]
    return Memory(tuple(part for part in parts if part.bytes), sizes.shape is not None)


def longest_row(plan: RunConfig, context: int) -> int:
    """Return tokens of one row.

    A prompt without a limit is taken to be as long as the longest answer.
    """
    if not plan.samples:
        return context
    length = plan.max_text_tokens() or 2 * plan.sampling.max_tokens
    return min(length, context) if context else length


def sequences(plan: RunConfig) -> int:
    """Return the number of sequences of one step; a preference lesson has two."""
    is_pairs = plan.snapshot is not None and plan.snapshot.source == "preferences"
    return plan.rows_per_step * (2 if is_pairs else 1)


def cache_needed(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> int:
    """Return keys and values of one step's rollouts at once."""
    if sizes.shape is None:
        return 0
    rows = plan.usual_rows_per_step * longest_row(plan, sizes.context)
    return _engine_number(plan, on_gpu) * rows * sizes.shape.layers * sizes.shape.cached


def _trainer(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> list[Part]:
    adapters = _adapters(plan, sizes)
    trained = adapters or sizes.parameters
    is_rounded = _is_sixteen_bits(plan.precision.trainer, on_gpu)
    has_reference = plan.algorithm.needs_reference and plan.lora is None
    master = FLOAT32 * (sizes.parameters + adapters)
    rounded = SIXTEEN_BITS * trained if is_rounded else 0
    moments = MOMENT_BYTES[plan.optimizer.kind] * trained
    reference = FLOAT32 * sizes.parameters if has_reference else 0
    shards = plan.trainer.processes if plan.trainer.sharding == "fsdp2" else 1
    parts = [
        Part("master weights", "trainer", master // shards),
        Part("weights", "trainer", rounded // shards, sampling=False),
        Part("Adam", "trainer", moments // shards),
        Part("gradients", "trainer", FLOAT32 * trained // shards, sampling=False),
        Part("reference", "trainer", reference // shards),
        Part("activations", "trainer", _activations(plan, sizes, on_gpu), sampling=False),
        Part("logits", "trainer", _logits(plan, sizes, on_gpu), sampling=False),
    ]
    return [*parts, Part("CUDA", "trainer", int(CUDA_BYTES))] if on_gpu else parts


def _engine(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> list[Part]:
    weights = _engine_number(plan, on_gpu) * sizes.parameters
    share = plan.vllm.gpu_memory_utilization
    stays = not plan.vllm.sleep_level
    cache = cache_needed(plan, sizes, on_gpu)
    if not on_gpu:
        return [Part("weights", "engine", weights), Part("KV cache", "engine", cache)]
    if share is not None:  # vLLM takes all of it at its start
        cache = max(0, int(share * CARD_BYTES - weights - CUDA_BYTES))
    return [
        Part("weights", "engine", weights, updating=stays),
        Part("KV cache", "engine", cache, updating=stays),
        Part("CUDA", "engine", int(CUDA_BYTES)),
    ]


def _adapters(plan: RunConfig, sizes: Sizes) -> int:
    """Return numbers of the adapters; 0 where all weights are trained."""
    if plan.lora is None:
        return 0
    if sizes.shape is None:
        return sizes.parameters // 100
    return sizes.shape.adapter(plan.lora.rank, plan.lora.target_modules)


def rows_per_pass(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> int:
    """Return the most rows of one forward pass of one process, at least 1.

    `micro_batch_rows` and `micro_batch_tokens` bound it. A run that samples and sets neither takes
    as many rows of the longest length as PASS_BYTES has room for, in whole groups if there is room
    for one: a pass computes the prompt of a group once.
    """
    rows = math.ceil(sequences(plan) / plan.trainer.processes)
    optimizer = plan.optimizer
    tokens = optimizer.micro_batch_tokens
    if tokens is not None:
        rows = min(rows, max(1, tokens // max(1, longest_row(plan, sizes.context))))
    elif optimizer.micro_batch_rows is None and plan.samples and sizes.shape:
        return _rows_with_room(plan, sizes, on_gpu, rows)
    return min(rows, optimizer.micro_batch_rows or rows)


def _rows_with_room(plan: RunConfig, sizes: Sizes, on_gpu: bool, max_rows: int) -> int:
    room = PASS_BYTES["gpu" if on_gpu else "cpu"]
    rows = max_rows
    while rows > 1 and _kept_bytes(plan, sizes, on_gpu, rows) > room:
        rows -= 1
    groups = rows // plan.group_size
    return rows if rows == max_rows else groups * plan.group_size or rows


def _activations(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> int:
    """Return the bytes that a forward pass keeps for the backward pass."""
    if sizes.shape is None:
        return 0
    return _kept_bytes(plan, sizes, on_gpu, _rows_at_once(plan, sizes, on_gpu))


def _kept_bytes(plan: RunConfig, sizes: Sizes, on_gpu: bool, rows: int) -> int:
    """Return the bytes that a forward pass of this many rows of the longest length keeps."""
    shape = sizes.shape
    assert shape is not None  # without it no size of a pass is estimated
    row_tokens = longest_row(plan, sizes.context)
    tokens = rows * row_tokens
    again = is_recomputed(plan, on_gpu)
    if again and on_gpu:
        inputs = FLOAT32 * shape.layers * shape.width
        return tokens * (inputs + AGAIN_BY_WIDTH * shape.width + AGAIN_BY_INNER * shape.inner)
    distinct = tokens - _repeated_tokens(plan, rows, row_tokens)
    by_token = KEPT_BY_WIDTH * shape.width + KEPT_BY_INNER * shape.inner
    layer = by_token * distinct + KEPT_BY_ATTENTION * shape.attention * tokens
    if again:
        return FLOAT32 * (shape.layers * shape.width * distinct + layer)
    return FLOAT32 * shape.layers * layer


def _repeated_tokens(plan: RunConfig, rows: int, row_tokens: int) -> int:
    """Return how many tokens of prompts stand in the rows once more; 0 for lessons."""
    if not plan.samples:
        return 0
    prompts = math.ceil(rows / plan.group_size)
    return (rows - prompts) * max(0, row_tokens - plan.sampling.max_tokens)


def is_recomputed(plan: RunConfig, on_gpu: bool) -> bool:
    """Tell whether layers are computed again in the backward pass instead of kept."""
    setting = plan.optimizer.gradient_checkpointing
    return on_gpu if setting == "auto" else setting == "always"


def _logits(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> int:
    """Return the bytes of logits that exist at once, with their gradient.

    They are of completion tokens, some columns at a time.
    """
    if (shape := sizes.shape) is None:
        return 0
    tokens = _rows_at_once(plan, sizes, on_gpu) * (
        plan.sampling.max_tokens if plan.samples else longest_row(plan, sizes.context)
    )
    logits = tokens * min(shape.vocabulary, COLUMNS_AT_ONCE)
    return 2 * FLOAT32 * (logits if on_gpu else min(logits, LOGITS_AT_ONCE))


def _rows_at_once(plan: RunConfig, sizes: Sizes, on_gpu: bool) -> int:
    """Return the rows of one pass of a process: passes are as equal as they can be."""
    rows = math.ceil(sequences(plan) / plan.trainer.processes)
    passes = math.ceil(rows / rows_per_pass(plan, sizes, on_gpu))
    return math.ceil(rows / passes)


def _engine_number(plan: RunConfig, on_gpu: bool) -> int:
    is_rounded = _is_sixteen_bits(plan.precision.engine, on_gpu)
    return SIXTEEN_BITS if is_rounded else FLOAT32


def _is_sixteen_bits(precision: str, on_gpu: bool) -> bool:
    return on_gpu if precision == "auto" else precision != "float32"
