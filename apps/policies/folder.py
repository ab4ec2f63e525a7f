"""Rules for safe loading: which folders may be given to a model loader at all.

Allowed are safetensors files and the known configuration and tokenizer files, and nothing else: no
pickles, no Python, no `auto_map` (which makes loaders import code), no links, no index that points
outside. `scan_policy_folder` reads everything once and loads nothing.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.accounts import strict_json
from apps.accounts.contained_paths import UnsafePath, single_name
from apps.policies import tensor_file
from apps.policies.damage import Damage, DamagedWeights
from apps.policies.tensor_file import TensorSpec

MANIFEST = "manifest.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
# An adapter's folder holds these two and the manifest, nothing else: the weights it changes are in
# its base's folder.
ADAPTER = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
KNOWN_FILES = frozenset(
    {
        MANIFEST,
        INDEX,
        ADAPTER_CONFIG,
        "config.json",
        "generation_config.json",
        "preprocessor_config.json",
        "processor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
        "README.md",
        "LICENSE",
        "LICENSE.txt",
        ".gitattributes",
    }
)
# Model types with pictures that are supported. In these, features of a picture take the places of
# its tokens, one position each, under the text model's own mask. Others use positions in three
# dimensions, let pictures attend ahead, or feed them to deeper layers.
SEEING = frozenset({"llava"})
CODE_AND_PICKLES = frozenset(
    {".py", ".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".so", ".npy", ".npz", ".h5"}
)
KERNEL_SETTINGS = frozenset(
    {"attn_implementation", "_attn_implementation", "_attn_implementation_internal"}
)
KNOWN_KERNELS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
CONFIG_LIMIT = 64 << 20  # bytes of one JSON file that is read completely


@dataclass(frozen=True)
class FileEntry:
    """A file as the manifest records it."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class FolderScan:
    """The contents of a folder: checksums of all files but the manifest, tensors, fingerprint."""

    files: dict[str, FileEntry]
    tensors: dict[str, TensorSpec]
    fingerprint: str
    config: dict[str, Any]


def scan_policy_folder(
    folder: Path | str, advance: Callable[[int], None] | None = None
) -> FolderScan:
    """Check a folder against the rules for safe loading; raise DamagedWeights.

    Every tensor must be finite. `advance` is called with the number of weight bytes read, piece by
    piece.
    """
    folder = Path(folder)
    names = list_safe_files(folder)
    config = _read_config(folder, names)
    files: dict[str, FileEntry] = {}
    tensors: dict[str, TensorSpec] = {}
    digests: dict[str, str] = {}
    for name in _weight_files(folder, names):
        report = tensor_file.inspect(folder / name, advance)
        _require_disjoint(tensors, report.tensors, name)
        files[name] = FileEntry(report.sha256, report.bytes)
        tensors |= report.tensors
        digests |= report.digests
    for name in names - files.keys() - {MANIFEST}:
        files[name] = checksum(folder / name)
    return FolderScan(files, tensors, fingerprint_tensors(tensors, digests), config)


def tensor_specs(folder: Path) -> dict[str, TensorSpec]:
    """Return the tensors of all weight files by their headers alone; raise DamagedWeights."""
    files = sorted(folder.glob("*.safetensors"))
    placed = [tensor for path in files for tensor in tensor_file.read_layout(path)]
    return {tensor.name: tensor.spec for tensor in placed}


def fingerprint_tensors(tensors: dict[str, TensorSpec], digests: dict[str, str]) -> str:
    """Return 16 hex digits over names, dtypes, shapes and bytes of the tensors.

    They do not depend on sharding and the order of tensors.
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        spec = tensors[name]
        digest.update(f"{name}\0{spec.dtype}\0{list(spec.shape)}\0{digests[name]}\n".encode())
    return digest.hexdigest()[:16]


def list_safe_files(folder: Path, ignored: frozenset[str] = frozenset()) -> set[str]:
    """Return the names in the folder; raise DamagedWeights at the first that is not allowed.

    `ignored` names subfolders that are skipped without reading them.
    """
    if not folder.is_dir():
        raise DamagedWeights(Damage.MISSING_FILE, folder.name, "the folder does not exist")
    with os.scandir(folder) as entries:
        names = {_require_safe(entry) for entry in entries if not _is_ignored(entry, ignored)}
    for name in sorted(names):
        if name.endswith(".json") and name not in {MANIFEST, INDEX, "tokenizer.json", "vocab.json"}:
            _refuse_remote_code(_read_json(folder / name), name)
    return names


def _is_ignored(entry: os.DirEntry, ignored: frozenset[str]) -> bool:
    return entry.name in ignored and entry.is_dir(follow_symlinks=False)


def _require_safe(entry: os.DirEntry) -> str:
    name = entry.name
    suffix = Path(name).suffix.lower()
    if suffix in CODE_AND_PICKLES:
        raise DamagedWeights(
            Damage.UNSAFE_FILE,
            name,
            (f"{suffix} files can run code when they are loaded; use safetensors"),
        )
    if not entry.is_file(follow_symlinks=False):
        raise DamagedWeights(
            Damage.UNSAFE_FILE, name, "only regular files are allowed, no folders or links"
        )
    if name not in KNOWN_FILES and suffix != ".safetensors":
        raise DamagedWeights(
            Damage.UNSAFE_FILE, name, "this file is not allowed in a policy folder"
        )
    return name


def _read_json(path: Path) -> Any:
    try:
        return strict_json.read_json_file(path, CONFIG_LIMIT)
    except strict_json.NotStrictJson as error:
        raise DamagedWeights(Damage.BAD_CONFIG, path.name, str(error)) from None


def _refuse_remote_code(document: Any, name: str) -> None:
    """Refuse settings anywhere in a configuration that make a loader run foreign code.

    `auto_map` imports modules of the folder; `attn_implementation: owner/kernel` downloads a
    compiled kernel from the Hub; `quantization_config` selects a quantizer, some of which import
    packages by name, and such weights cannot be trained here anyway.
    """
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if "auto_map" in value:
                raise DamagedWeights(
                    Damage.REMOTE_CODE, name, "`auto_map` makes the loader run code; remove it"
                )
            if value.get("quantization_config"):
                advice = (
                    "`quantization_config`: quantized weights cannot be trained; dequantize them"
                )
                raise DamagedWeights(Damage.REMOTE_CODE, name, advice)
            for setting in KERNEL_SETTINGS & value.keys():
                if value[setting] not in (None, *KNOWN_KERNELS):
                    advice = f"`{setting}` must be one of {', '.join(KNOWN_KERNELS)}"
                    raise DamagedWeights(Damage.REMOTE_CODE, name, advice)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _read_config(folder: Path, names: set[str]) -> dict[str, Any]:
    if ADAPTER_CONFIG in names:
        return _read_adapter_config(folder, names)
    return read_model_config(folder)


def read_model_config(folder: Path) -> dict[str, Any]:
    """Return the model's configuration, with its `model_type`; raise DamagedWeights."""
    if not (folder / "config.json").exists():
        raise DamagedWeights(
            Damage.MISSING_FILE, "config.json", "the folder has no model configuration"
        )
    config = _read_json(folder / "config.json")
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise DamagedWeights(
            Damage.BAD_CONFIG, "config.json", "must be an object with a `model_type`"
        )
    return config


def _read_adapter_config(folder: Path, names: set[str]) -> dict[str, Any]:
    for name in sorted(names - {ADAPTER, ADAPTER_CONFIG, MANIFEST}):
        raise DamagedWeights(
            Damage.UNSAFE_FILE,
            name,
            "an adapter folder may contain only its weights and configuration",
        )
    config = _read_json(folder / ADAPTER_CONFIG)
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise DamagedWeights(
            Damage.BAD_CONFIG, ADAPTER_CONFIG, "must be an object with `peft_type` LORA"
        )
    return config


def _weight_files(folder: Path, names: set[str]) -> list[str]:
    """Return the model's safetensors files: one file, the shards of the index, or the adapter."""
    present = {name for name in names if name.endswith(".safetensors")}
    expected = (
        _shards(folder) if INDEX in names else {ADAPTER if ADAPTER_CONFIG in names else SINGLE}
    )
    for name in sorted(expected - present):
        raise DamagedWeights(Damage.MISSING_FILE, name, "the weights are missing")
    for name in sorted(present - expected):
        raise DamagedWeights(Damage.UNSAFE_FILE, name, "weights that are not in the index")
    if INDEX in names:
        _require_index_matches(folder)
    return sorted(expected)


def _weight_map(folder: Path) -> dict[str, str]:
    index = _read_json(folder / INDEX)
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise DamagedWeights(
            Damage.BAD_INDEX, INDEX, "must be an object with a `weight_map` from tensor to file"
        )
    for tensor, name in weight_map.items():
        try:
            if not single_name(name).endswith(".safetensors"):
                raise UnsafePath(name, "is not a safetensors file")
        except UnsafePath as error:
            raise DamagedWeights(Damage.BAD_INDEX, INDEX, f"{tensor[:100]} is in {error}") from None
    return weight_map


def _shards(folder: Path) -> set[str]:
    return set(_weight_map(folder).values())


def _require_index_matches(folder: Path) -> None:
    """Require that each shard holds exactly the tensors that the index names for it."""
    weight_map = _weight_map(folder)
    for shard in sorted(set(weight_map.values())):
        listed = {tensor for tensor, name in weight_map.items() if name == shard}
        stored = {tensor.name for tensor in tensor_file.read_layout(folder / shard)}
        for tensor in sorted(listed - stored):
            raise DamagedWeights(
                Damage.MISSING_TENSOR, shard, f"{tensor}: missing here, but the index lists it"
            )
        for tensor in sorted(stored - listed):
            kind = Damage.DUPLICATE_TENSOR if tensor in weight_map else Damage.EXTRA_TENSOR
            raise DamagedWeights(kind, shard, f"{tensor}: the index does not list it here")


def _require_disjoint(
    known_tensors: dict[str, TensorSpec], new: dict[str, TensorSpec], name: str
) -> None:
    for tensor in sorted(known_tensors.keys() & new.keys()):
        raise DamagedWeights(Damage.DUPLICATE_TENSOR, name, f"{tensor} is in two files")


def checksum(path: Path) -> FileEntry:
    """Return a file's checksum and size, as a manifest records them."""
    with path.open("rb") as stream:
        return FileEntry(hashlib.file_digest(stream, "sha256").hexdigest(), path.stat().st_size)
