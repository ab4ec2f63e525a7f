"""Write a sealed policy as a GGUF file.

Tensors are read, arranged and written one at a time, large ones a band of rows at a time, so that
memory holds the largest tensor twice at most. Norms and other vectors stay 32-bit floats, as
llama.cpp expects them; matrices become F16 or Q8_0, and F16 where their rows are no multiple of 32
numbers. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from safetensors import safe_open
from transformers import AutoConfig, AutoTokenizer

from apps.policies.as_gguf import KINDS, NotAsGguf
from apps.policies.manifest import read_manifest, sync
from apps.policies.tensor_file import read_layout
from workers.exporting.architectures import Model, size_label
from workers.exporting.modelfile import modelfile
from workers.exporting.vocabulary import Vocabulary, read_vocabulary

BAND = 1 << 24  # numbers of a matrix that are converted at a time
FILE_TYPES = {"F16": LlamaFileType.MOSTLY_F16, "Q8_0": LlamaFileType.MOSTLY_Q8_0}
MODELFILE = "Modelfile"


@dataclass(frozen=True)
class GgufDescription:
    """Description that is stored in the GGUF file. `about` may have several lines."""

    name: str
    about: str = ""
    temperature: float = 1.0
    licence: str = ""


@dataclass(frozen=True)
class GgufTensor:
    """Tensor to be written: its source file and name (None: made here), its name in GGUF."""

    file: Path | None
    source: str
    target: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType

    @property
    def bytes(self) -> int:
        return (
            math.prod(gguf.quant_shape_to_byte_shape(self.shape, self.kind))
            if self.is_packed
            else self._plain_bytes
        )

    @property
    def is_packed(self) -> bool:
        return self.kind == GGMLQuantizationType.Q8_0

    @property
    def _plain_bytes(self) -> int:
        return math.prod(self.shape) * (2 if self.kind == GGMLQuantizationType.F16 else 4)


def write_gguf(source: Path, out: Path, form: str, description: GgufDescription) -> Path:
    """Write the whole weights in `source` as `out/NAME-KIND.gguf`, and a Modelfile beside it;
    returns the file.

    Raises NotAsGguf, DamagedWeights, OSError.
    """
    read_manifest(source)
    config = AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=True)
    model = Model(config)
    tokenizer = AutoTokenizer.from_pretrained(
        source, trust_remote_code=False, local_files_only=True
    )
    vocabulary = read_vocabulary(tokenizer, source, config.vocab_size)
    kind = KINDS[form]
    path = out / f"{description.name}-{kind}.gguf"
    _write_file(source, path, model, vocabulary, kind, description)
    text = modelfile(path.name, tokenizer, vocabulary, description.temperature, description.licence)
    (out / MODELFILE).write_text(text, encoding="utf-8")
    return path


def _write_file(
    source: Path,
    path: Path,
    model: Model,
    vocabulary: Vocabulary,
    kind: str,
    description: GgufDescription,
) -> None:
    extra = dict(model.extra())
    placed = [*_extra(extra), *_of_checkpoint(source, model, GGMLQuantizationType[kind])]
    writer = GGUFWriter(path, gguf.MODEL_ARCH_NAMES[model.kind.arch])
    try:
        _write_header(
            writer,
            model,
            vocabulary,
            kind,
            description,
            sum(math.prod(tensor.shape) for tensor in placed),
        )
        for tensor in placed:
            shape = (
                gguf.quant_shape_to_byte_shape(tensor.shape, tensor.kind)
                if tensor.is_packed
                else tensor.shape
            )
            dtype = np.uint8 if tensor.is_packed else np.float32
            writer.add_tensor_info(
                tensor.target, shape, np.dtype(dtype), tensor.bytes, raw_dtype=tensor.kind
            )
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in placed:
            values = extra[tensor.target] if tensor.file is None else _read(tensor, model)
            writer.write_tensor_data(_converted(values, tensor))
        writer.flush()
    finally:
        writer.close()
    sync(path)


def _write_header(
    writer: GGUFWriter,
    model: Model,
    vocabulary: Vocabulary,
    kind: str,
    description: GgufDescription,
    numbers: int,
) -> None:
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(description.name)
    writer.add_size_label(size_label(numbers))
    if description.about:
        writer.add_description(description.about)
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    model.write_hyperparameters(writer)
    vocabulary.write(writer)


def _extra(tensors: dict[str, torch.Tensor]) -> Iterator[GgufTensor]:
    for name, values in tensors.items():
        yield GgufTensor(None, name, name, tuple(values.shape), GGMLQuantizationType.F32)


def _of_checkpoint(source: Path, model: Model, kind: GGMLQuantizationType) -> Iterator[GgufTensor]:
    """Yield the checkpoint's tensors, in the order of its files.

    Raises NotAsGguf where the head is missing.
    """
    names = set()
    for path in sorted(source.glob("*.safetensors")):
        for tensor in read_layout(path):
            names.add(tensor.name)
            if target := model.name_of(tensor.name):
                shape = tensor.spec.shape
                yield GgufTensor(path, tensor.name, target, shape, _kind_of(target, shape, kind))
    if not model.is_tied and "lm_head.weight" not in names:
        raise NotAsGguf("the tensor lm_head.weight is missing")


def _kind_of(
    target: str, shape: tuple[int, ...], kind: GGMLQuantizationType
) -> GGMLQuantizationType:
    if len(shape) == 1 or target.endswith("_norm.weight"):
        return GGMLQuantizationType.F32
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    return GGMLQuantizationType.F16 if shape[-1] % block else kind


def _read(tensor: GgufTensor, model: Model) -> torch.Tensor:
    with safe_open(tensor.file, "pt") as file:
        return model.arranged(tensor.source, file.get_tensor(tensor.source))


def _converted(values: torch.Tensor, tensor: GgufTensor) -> np.ndarray:
    """Return the numbers as the file stores them.

    Raises NotAsGguf where one is too large for that.
    """
    if values.ndim == 1:
        return values.float().numpy()
    bands = [_band(part, tensor) for part in values.split(max(1, BAND // values.shape[1]))]
    return np.concatenate(bands) if len(bands) > 1 else bands[0]


def _band(part: torch.Tensor, tensor: GgufTensor) -> np.ndarray:
    numbers = part.float().numpy()
    largest = float(np.abs(numbers).max(initial=0.0))
    limit = float(np.finfo(np.float16).max) * (
        127 if tensor.is_packed else 1
    )  # Q8_0 scales 127 by a 16-bit float
    if largest > limit:
        limit_text = f"the maximum of {tensor.kind.name} is {limit:g}"
        raise NotAsGguf(f"the tensor {tensor.source} contains the value {largest:g}; {limit_text}")
    if tensor.kind == GGMLQuantizationType.F32:
        return numbers
    return gguf.quants.quantize(numbers, tensor.kind)
