"""Bring a model in: fetch or copy, convert, check, load once for the probe, and seal.

Nothing is loaded before the folder has passed the safe loading rules, or the GGUF file's header has
been checked, and then without remote code.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from apps.policies.chat_presets import PRESETS
from apps.policies.folder import (
    ADAPTER_CONFIG,
    MANIFEST,
    list_safe_files,
    scan_policy_folder,
)
from apps.policies.hub_cache import copy_snapshot, snapshot_in
from apps.policies.manifest import DamagedWeights, Manifest, Probe, seal_folder, verify_folder
from apps.policies.model_sources import NoModel, kind_of
from apps.policies.named_models import CATALOGUE
from workers import adapters
from workers.chat_encoder import ChatEncoder, UnsafeTemplate
from workers.policies import gguf_model
from workers.policies.chat_check import notes_on_chat
from workers.policies.chat_template import NoTemplate, give_template, rendered_example
from workers.policies.hub import NotDownloaded, download_model
from workers.policies.named_wheels import NotFetched, unpack_model
from workers.policies.progress import Advance, reporter, stage
from workers.policies.sampling import probe_logprobs
from workers.vision import loading
from workers.vision.image_processor import ImageProcessor
from workers.vision.probing import seeing_probe

PROBE_TEXT = "The quick brown fox jumps over the lazy dog. 3 + 4 = 7."
PROBE_TOKENS = 32
LONE_ADAPTER = "is an adapter without a base model; merge it first"
DOWNLOADERS_NOTES = frozenset({".cache", ".git"})  # folders beside a downloaded or cloned model
GGUF = ".gguf"
# Of a model card: the licence in its header (https://huggingface.co/docs/hub/model-cards).
CARD_HEADER = re.compile(r"\A---\n(.*?\n)---", re.DOTALL)
CARD_LICENCE = re.compile(r"^license:[ \t]*[\"']?([\w.+ -]{1,100})", re.MULTILINE)
CARD_LIMIT = 1 << 20  # bytes
PIECE = 4 << 20  # bytes copied at a time
LICENCE_LENGTH = 200
SENTENCE = 400  # characters of a library's error that are told
OTHER_SIZES = "ignore_mismatched_sizes"  # in the error of transformers 5.19 for such tensors


class NotAPolicy(Exception):
    """Raised for a model that cannot be used here; the message says why."""


@dataclass(frozen=True)
class Origin:
    """Source of a model, in words, and its licence, which is empty if the model states none."""

    source: str
    licence: str = ""


@dataclass(frozen=True)
class ModelRequest:
    """Request to add a model.

    `chat_template` is a preset's name or a file; `cache` keeps wheels. `kind` is one of KINDS,
    or empty for the first that fits the source.
    """

    source: str
    revision: str = "main"
    chat_template: str = ""
    cache: Path = Path("var/models")
    kind: str = ""

    def note(self, sentence: str) -> None:
        reporter().note(self.source, sentence)


REFUSALS = (
    DamagedWeights,
    NoModel,
    NotAPolicy,
    NotDownloaded,
    NotFetched,
    NoTemplate,
    FileExistsError,
    OSError,
    ValueError,
)


def adopt_model(source: str, revision: str, final: Path) -> Manifest:
    """Add a model as `bring_in` does, from a source that is taken unchanged."""
    return bring_in(ModelRequest(source, revision), final)[0]


def bring_in(request: ModelRequest, final: Path) -> tuple[Manifest, Origin]:
    """Copy, convert, merge or fetch, check, load once for the probe, seal.

    Raises what is in REFUSALS; nothing takes the name `final` then.
    """
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    try:
        origin = _bring(request, unfinished)
        if ADAPTER_CONFIG in list_safe_files(unfinished):  # a loader would go and look for its base
            raise NotAPolicy(LONE_ADAPTER)
        if request.chat_template:
            for note in give_template(unfinished, request.chat_template):
                request.note(note)
        size = sum(path.stat().st_size for path in unfinished.glob("*.safetensors"))
        with stage(f"{request.source}: checking and hashing", size) as advance:
            scan = scan_policy_folder(unfinished, advance)
        tokenizer = _tokenizer(unfinished)
        _try_chat(request, unfinished, tokenizer)
        with stage(f"{request.source}: probing"):
            probe = _probe(unfinished, tokenizer)
        with stage(f"{request.source}: sealing"):
            manifest = seal_folder(
                unfinished, final, version=0, parent=None, probe=probe, scan=scan
            )
        return manifest, origin
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


# -- where a model comes from ---------------------------------------------------------------------


def _bring(request: ModelRequest, folder: Path) -> Origin:
    """Put the model's files into the new folder `folder`."""
    path = Path(request.source)
    kind = request.kind or kind_of(request.source)
    if kind == "path" and path.is_dir():
        return _bring_folder(request, path, folder)
    if kind == "path":
        if path.suffix.lower() != GGUF:
            raise NotAPolicy("is a file, but not a GGUF file (its name does not end in .gguf)")
        return _convert(request, path, folder)
    if kind == "named":
        return _fetch_named_model(request, folder)
    commit = download_model(request.source, request.revision, folder)
    return Origin(f"{request.source}@{commit[:12]}", _licence_in(folder))


def _bring_folder(request: ModelRequest, source: Path, folder: Path) -> Origin:
    if snapshot := snapshot_in(source, request.revision):
        with stage(f"{request.source}: copying"):
            copy_snapshot(snapshot, folder)
    elif gguf := _only_gguf_in(source):
        return _convert(request, gguf, folder)
    elif ADAPTER_CONFIG in list_safe_files(source, DOWNLOADERS_NOTES):
        _merge(source, folder)
    else:
        _copy(request, source, folder)
    return Origin(request.source, _licence_in(folder))


def _only_gguf_in(source: Path) -> Path | None:
    """Return the one GGUF file of a folder without safetensors.

    Raises NotAPolicy where there are several.
    """
    ggufs = sorted(path for path in source.iterdir() if path.suffix.lower() == GGUF)
    if not ggufs or any(source.glob("*.safetensors")):
        return None
    if len(ggufs) > 1:
        names = ", ".join(path.name for path in ggufs[:5])
        raise NotAPolicy(f"contains {len(ggufs)} GGUF files ({names}): choose one")
    return ggufs[0]


def _copy(request: ModelRequest, source: Path, folder: Path) -> None:
    """Copy the folder's files, without a manifest and without what downloaders leave."""
    names = sorted(list_safe_files(source, DOWNLOADERS_NOTES) - {MANIFEST})
    folder.mkdir()
    size = sum((source / name).stat().st_size for name in names)
    with stage(f"{request.source}: copying", size) as advance:
        for name in names:
            _copy_file(source / name, folder / name, advance)


def _copy_file(source: Path, target: Path, advance: Advance) -> None:
    """Copy without following a link put in the file's place."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as stream, target.open("xb") as copy:
        while piece := stream.read(PIECE):
            copy.write(piece)
            advance(len(piece))


def _convert(request: ModelRequest, path: Path, folder: Path) -> Origin:
    folder.mkdir(exist_ok=True)
    header = gguf_model.write_policy(path, folder, request.source)
    for note in gguf_model.notes_on(header):
        request.note(note)
    licence = header.metadata.get("general.license")
    return Origin(request.source, licence[:LICENCE_LENGTH] if isinstance(licence, str) else "")


def _fetch_named_model(request: ModelRequest, folder: Path) -> Origin:
    model = CATALOGUE[request.source]
    folder.mkdir()
    with TemporaryDirectory(dir=folder) as aside:
        weights = unpack_model(model, request.cache, Path(aside))
        (Path(aside) / "LICENSE").rename(folder / "LICENSE")
        _convert(request, weights, folder)
    return Origin(model.source, model.licence)


def _merge(adapter: Path, folder: Path) -> None:
    """Merge a version that a run published as an adapter into whole weights.

    Raises NotAPolicy for one that names no base.
    """
    if not (adapter / MANIFEST).exists():
        raise NotAPolicy(LONE_ADAPTER)
    verify_folder(adapter)
    with adapters.merge_whole_weights(adapter) as whole:
        shutil.copytree(whole, folder)


def _licence_in(folder: Path) -> str:
    """Return the licence that a model card in the folder names, or empty."""
    card = folder / "README.md"
    if not card.is_file():
        return ""
    with card.open(encoding="utf-8", errors="replace") as stream:
        header = CARD_HEADER.match(stream.read(CARD_LIMIT))
    licence = CARD_LICENCE.search(header[1]) if header else None
    return licence[1].strip() if licence else ""


# -- what it must be able to do -------------------------------------------------------------------


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    with _readable("the model"):
        loading.load_vision_config(folder)  # which a tokenizer reads too
    with _readable("the tokenizer or its chat template"):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Turn any error of a library into one sentence on what is wrong with `what`.

    Raises NotAPolicy.
    """
    try:
        yield
    except (DamagedWeights, NotAPolicy, loading.CannotSee):
        raise
    except Exception as error:
        paragraph = str(error).strip().split("\n\n")[0]
        if OTHER_SIZES in paragraph:
            paragraph = "config.json tells of other sizes than the tensors have"
        elif not isinstance(error, ValueError | OSError) or isinstance(error, UnicodeError):
            paragraph = f"{type(error).__name__}: {paragraph}"
        sentence = " ".join(paragraph.split())[:SENTENCE]
        raise NotAPolicy(f"{what} cannot be read: {sentence}") from error


def _require_whole(differences: Mapping[str, Collection[object]]) -> None:
    """Raise NotAPolicy unless the tensors are those of the model that config.json describes.

    A library would make up those that are missing, and pass over those that are too many.
    """
    for kind, names in sorted(differences.items()):
        if names:
            first = sorted(map(str, names))[0]
            further = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise NotAPolicy(
                "the tensors are not those of the model that config.json describes: "
                f"{kind.replace('_', ' ')}: {first}{further}"
            )


def _probe(folder: Path, tokenizer: PreTrainedTokenizerBase) -> Probe:
    with _readable("the model"):
        loading.require_read(loading.load_vision_config(folder))
        model, info = loading.load_vision_model(folder, dtype="float32", output_loading_info=True)
    _require_whole(info)
    model.eval()
    token_ids = tokenizer.encode(PROBE_TEXT, add_special_tokens=False)[:PROBE_TOKENS]
    if image_processor := ImageProcessor.of(folder):
        return seeing_probe(model, image_processor, token_ids)
    return Probe(tuple(token_ids), tuple(probe_logprobs(model, token_ids)))


def require_chat(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise NotAPolicy for one that cannot write messages, end a reply, or keep them apart."""
    if not tokenizer.chat_template:
        how = f"choose one: your own, or {', '.join(PRESETS)}"
        raise NotAPolicy(f"has no chat template, which is required for chat messages; {how}")
    if tokenizer.eos_token_id is None:
        raise NotAPolicy("has no end token, so replies would never stop")
    try:
        ChatEncoder(tokenizer).require_safe()
    except UnsafeTemplate as why:
        raise NotAPolicy(f"control tokens cannot be kept out of messages: {why}") from None


def _try_chat(request: ModelRequest, folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Tell what the template lacks; of one that was asked for, show an example.

    Raises NotAPolicy, UnusableTemplate.
    """
    notes = notes_on_chat(folder) if tokenizer.chat_template else []
    require_chat(tokenizer)
    for note in notes:
        request.note(note)
    if request.chat_template:
        reporter().example(request.chat_template, rendered_example(folder))
