"""Token ids that end a reply, as the files of a model folder list them.

Many models have several: Llama 3 lists three in generation_config.json, Qwen two, and their
tokenizer names only one of them.
"""

from pathlib import Path
from typing import Any

from apps.accounts import strict_json
from apps.policies.folder import CONFIG_LIMIT

FILES = ("generation_config.json", "config.json")


def declared_end_tokens(folder: Path) -> list[int]:
    """Return the end tokens in the order of the files, each once; empty if there are none."""
    end_tokens: list[int] = []
    for name in FILES:
        path = folder / name
        if not path.exists():
            continue
        document = strict_json.read_json_file(path, CONFIG_LIMIT)
        end_tokens += _ids(document) + _ids(document.get("text_config"))
    return list(dict.fromkeys(end_tokens))


def _ids(section: Any) -> list[int]:
    value = section.get("eos_token_id") if isinstance(section, dict) else None
    values = value if isinstance(value, list) else [value]
    return [token_id for token_id in values if type(token_id) is int and token_id >= 0]
