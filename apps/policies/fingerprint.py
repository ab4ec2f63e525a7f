"""Fingerprints of tokenizers: equal ones map the same text to the same token ids."""

import hashlib
import json
from pathlib import Path

from apps.accounts import strict_json
from apps.policies.damage import DamagedWeights
from apps.policies.folder import CONFIG_LIMIT
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy

SPELLING = (
    "tokenizer.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
)


def tokenizer_fingerprint(policy: Policy) -> str:
    """Return the sha256 of the tokenizer's files; empty if the folder cannot be read."""
    try:
        files = read_manifest(policy.folder).files
    except DamagedWeights:
        return ""
    spelling = {name: files[name].sha256 for name in SPELLING if name in files}
    return hashlib.sha256(json.dumps(spelling, sort_keys=True).encode()).hexdigest()


def vocabulary(policy: Policy) -> int:
    """Return the size of the vocabulary; 0 if the folder does not tell it."""
    try:
        config = strict_json.read_json_file(Path(policy.folder) / "config.json", CONFIG_LIMIT)
    except (OSError, strict_json.NotStrictJson):
        return 0
    words = config.get("vocab_size") if isinstance(config, dict) else None
    return words if isinstance(words, int) else 0
