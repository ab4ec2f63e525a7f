"""Seal a checked copy of somebody's model: `python -m workers.policies.adopt SOURCE --out FOLDER`.

The source is a local folder, or a hub id, of which only weights, configuration and tokenizer are fetched.
A local folder may be one of the Hub's cache: a model's, or one of its snapshots.
Nothing is loaded before the folder has passed the safe loading rules, and then without remote code.
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from huggingface_hub import snapshot_download
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from apps.policies.folder import ADAPTER_CONFIG, KNOWN_FILES, MANIFEST
from apps.policies.hub_cache import copy_snapshot, snapshot_in
from apps.policies.manifest import DamagedWeights, Manifest, Probe, scan_policy_folder, seal, verify
from workers import adapters
from workers.chat_encoder import ChatEncoder, UnsafeTemplate
from workers.policies.chat_check import notes_on_chat
from workers.policies.sampling import probe_logprobs
from workers.vision import loading
from workers.vision.eyes import Eyes
from workers.vision.probing import seeing_probe

PROBE_TEXT = "The quick brown fox jumps over the lazy dog. 3 + 4 = 7."
PROBE_TOKENS = 32
LONE_ADAPTER = "is an adapter without its model; merge it into its base first"
DOWNLOADERS_NOTES = frozenset({".cache", ".git"})  # folders beside a downloaded or cloned model
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class NotAPolicy(Exception):
    """The model cannot be used here; the message says why."""


def main() -> int:
    """Entry of the command; 0 when the sealed folder is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("--revision", default="main")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    transformers_logging.disable_progress_bar()
    try:
        adopt(options.source, options.revision, options.out)
    except (DamagedWeights, NotAPolicy, FileExistsError, OSError, ValueError) as error:
        print(f"{options.source}: {error}", file=sys.stderr)
        return 1
    return 0


def adopt(source: str, revision: str, final: Path) -> Manifest:
    """Copy, merge or fetch, check, load once for the probe, seal. Raises DamagedWeights, NotAPolicy, OSError."""
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    try:
        _bring(source, revision, unfinished)
        if ADAPTER_CONFIG in scan_policy_folder(unfinished).files:  # a loader would go and look for its base
            raise NotAPolicy(LONE_ADAPTER)
        probe = _probe(unfinished)
        for note in notes_on_chat(unfinished):
            print(f"{source}: note: {note}", file=sys.stderr)
        return seal(unfinished, final, version=0, parent=None, probe=probe)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _bring(source: str, revision: str, folder: Path) -> None:
    if Path(source).is_dir():
        if snapshot := snapshot_in(Path(source), revision):
            copy_snapshot(snapshot, folder)
            return
        # Before copying, so that a refusal names the owner's file.
        if ADAPTER_CONFIG in scan_policy_folder(source, DOWNLOADERS_NOTES).files:
            _merge(Path(source), folder)
        else:
            left = shutil.ignore_patterns(MANIFEST, *DOWNLOADERS_NOTES)
            shutil.copytree(source, folder, symlinks=True, ignore=left)
        return
    if not HUB_ID.fullmatch(source):
        raise NotAPolicy("is neither a folder nor a hub id such as owner/name")
    wanted = [*sorted(KNOWN_FILES - {MANIFEST}), "*.safetensors"]
    snapshot_download(source, revision=revision, local_dir=folder, allow_patterns=wanted, ignore_patterns=["*/*"])
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the downloader's notes


def _merge(adapter: Path, folder: Path) -> None:
    """A version that a run published as an adapter becomes whole weights. Raises NotAPolicy for one that names no base."""
    if not (adapter / MANIFEST).exists():
        raise NotAPolicy(LONE_ADAPTER)
    verify(adapter)
    with adapters.whole(adapter) as whole:
        shutil.copytree(whole, folder)


def _probe(folder: Path) -> Probe:
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    _require_chat(tokenizer)
    loading.require_read(loading.config_of(folder))
    model = loading.read(folder, dtype="float32").eval()
    token_ids = tokenizer.encode(PROBE_TEXT, add_special_tokens=False)[:PROBE_TOKENS]
    if eyes := Eyes.of(folder):
        return seeing_probe(model, eyes, token_ids)
    return Probe(tuple(token_ids), tuple(probe_logprobs(model, token_ids)))


def _require_chat(tokenizer: PreTrainedTokenizerBase) -> None:
    if not tokenizer.chat_template:
        raise NotAPolicy("has no chat template; tasks are chat messages")
    if tokenizer.eos_token_id is None:
        raise NotAPolicy("has no end token; replies would never stop")
    try:
        ChatEncoder(tokenizer).require_safe()
    except UnsafeTemplate as why:
        raise NotAPolicy(f"cannot keep control tokens out of messages: {why}") from None


if __name__ == "__main__":
    sys.exit(main())
