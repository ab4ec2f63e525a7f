"""Giving a policy a chat template: one of a few by name, or a file's."""

import json
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from apps.accounts import strict_json
from apps.policies.chat_presets import PRESETS, TEMPLATE_LIMIT, Preset
from apps.policies.end_tokens import declared_end_tokens
from apps.policies.folder import CONFIG_LIMIT
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.policies.chat_check import UnusableTemplate, render_chat

FILE = "chat_template.jinja"
GENERATION = "generation_config.json"
ASKED = {"role": "user", "content": "What is 2 + 3?"}
EXAMPLE = [ASKED, {"role": "assistant", "content": "5"}, {"role": "user", "content": "And 4 + 4?"}]


class NoTemplate(ValueError):
    """Raised for an unknown template, or one that does not fit the tokenizer; says why."""


def give_template(folder: Path, name: str) -> list[str]:
    """Write the template of that name, or of that file, into an unsealed policy folder.

    Returns notes, in sentences. Raises NoTemplate, OSError.
    """
    preset = PRESETS.get(name)
    text = preset.text if preset else _read_file(name)
    notes = _fit(folder, preset) if preset else []
    (folder / FILE).write_text(text, encoding="utf-8")
    (folder / "chat_template.json").unlink(missing_ok=True)  # processors would prefer it
    return notes


def rendered_example(folder: Path) -> str:
    """Return a short dialogue as the policy's template writes it.

    One question where it takes no more.

    Raises UnusableTemplate.
    """
    chat_tokenizer = ChatTokenizer(folder)
    try:
        return render_chat(chat_tokenizer, EXAMPLE)
    except UnusableTemplate:
        return render_chat(chat_tokenizer, EXAMPLE[:1])


def _read_file(name: str) -> str:
    path = Path(name)
    if not path.is_file():
        presets = ", ".join(PRESETS)
        raise NoTemplate(f"chat template: {name!r} is neither a file nor one of {presets}")
    if path.stat().st_size > TEMPLATE_LIMIT:
        raise NoTemplate(f"chat template: {path.name} is larger than {TEMPLATE_LIMIT} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise NoTemplate(f"chat template: {path.name} is not UTF-8") from None


def _fit(folder: Path, preset: Preset) -> list[str]:
    """Check that the tokenizer knows the preset's marks, and let its end mark end replies."""
    tokenizer = AutoTokenizer.from_pretrained(
        folder, trust_remote_code=False, local_files_only=True
    )
    unknown = [mark for mark in preset.marks if mark not in tokenizer.get_vocab()]
    if unknown and preset.needs_tokens:
        why = f"the tokenizer has no token {unknown[0]!r}"
        raise NoTemplate(f"chat template {preset.name}: {why}; plain needs none")
    if preset.end:
        _add_end(folder, tokenizer, preset.end)
    if not unknown:
        return []
    marks = " and ".join(map(repr, unknown))
    return [
        (f"{marks} of the template {preset.name} are ordinary text, which tasks may also contain")
    ]


def _add_end(folder: Path, tokenizer: PreTrainedTokenizerBase, mark: str) -> None:
    """Name the mark's token among those that end a reply, if it is not there yet."""
    end = tokenizer.convert_tokens_to_ids(mark)
    declared = declared_end_tokens(folder)
    if end in (tokenizer.eos_token_id, *declared):
        return
    path = folder / GENERATION
    document = strict_json.read_json_file(path, CONFIG_LIMIT) if path.exists() else {}
    tokenizer_ends = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    document["eos_token_id"] = list(dict.fromkeys([*declared, *tokenizer_ends, end]))
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
