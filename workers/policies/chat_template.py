"""Giving a policy a chat template: one of a few by name, or a file's."""

import json
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from apps.accounts import strict_json
from apps.policies.end_tokens import declared_end_tokens
from apps.policies.folder import CONFIG_LIMIT
from workers.explorer.speaker import Speaker
from workers.policies.chat_check import UnusableTemplate, rendered

FOLDER = Path(__file__).with_name("chat_templates")
FILE, GENERATION = "chat_template.jinja", "generation_config.json"
TEMPLATE_LIMIT = 1 << 20  # bytes
ASKED = {"role": "user", "content": "What is 2 + 3?"}
EXAMPLE = [ASKED, {"role": "assistant", "content": "5"}, {"role": "user", "content": "And 4 + 4?"}]


class NoTemplate(ValueError):
    """No chat template of this name, or none that fits the policy's tokenizer; the message says why."""


@dataclass(frozen=True)
class Preset:
    """A template under chat_templates/ and the marks with which it sets turns apart.

    `end`: the mark that ends a turn, where it is not the tokenizer's own end token. `needs_tokens`:
    whether each mark must be one token. Where it need not, models were trained with it as text.
    """

    name: str
    marks: tuple[str, ...]
    end: str = ""
    needs_tokens: bool = True

    @property
    def text(self) -> str:
        return (FOLDER / f"{self.name}.jinja").read_text(encoding="utf-8")


HEADERS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("chatml", ("<|im_start|>", "<|im_end|>"), end="<|im_end|>"),
        Preset("llama3", HEADERS, end="<|eot_id|>"),
        Preset("gemma", ("<start_of_turn>", "<end_of_turn>"), end="<end_of_turn>"),
        Preset("mistral", ("[INST]", "[/INST]"), needs_tokens=False),
        Preset("zephyr", ("<|user|>", "<|assistant|>"), needs_tokens=False),
        Preset("plain", ("User:", "Assistant:"), needs_tokens=False),
    )
}


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
    """A short dialogue as the policy's template writes it; one question where it takes no more.

    Raises UnusableTemplate.
    """
    speaker = Speaker(folder)
    try:
        return rendered(speaker, EXAMPLE)
    except UnusableTemplate:
        return rendered(speaker, EXAMPLE[:1])


def _read_file(name: str) -> str:
    path = Path(name)
    if not path.is_file():
        known = ", ".join(PRESETS)
        raise NoTemplate(f"--chat-template: {name!r} is no file, and none of {known}")
    if path.stat().st_size > TEMPLATE_LIMIT:
        raise NoTemplate(f"--chat-template: {path.name} has more than {TEMPLATE_LIMIT} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise NoTemplate(f"--chat-template: {path.name} is not UTF-8") from None


def _fit(folder: Path, preset: Preset) -> list[str]:
    """Check that the tokenizer knows the preset's marks, and let its end mark end replies."""
    tokenizer = AutoTokenizer.from_pretrained(
        folder, trust_remote_code=False, local_files_only=True
    )
    unknown = [mark for mark in preset.marks if mark not in tokenizer.get_vocab()]
    if unknown and preset.needs_tokens:
        why = f"the tokenizer has no token {unknown[0]!r}"
        raise NoTemplate(f"--chat-template {preset.name}: {why}; plain needs none")
    if preset.end:
        _add_end(folder, tokenizer, preset.end)
    if not unknown:
        return []
    marks = " and ".join(map(repr, unknown))
    return [f"{marks} of the template {preset.name} are ordinary text: tasks may hold them too"]


def _add_end(folder: Path, tokenizer: PreTrainedTokenizerBase, mark: str) -> None:
    """Name the mark's token among those that end a reply, if it is not there yet."""
    end = tokenizer.convert_tokens_to_ids(mark)
    declared = declared_end_tokens(folder)
    if end in (tokenizer.eos_token_id, *declared):
        return
    path = folder / GENERATION
    document = strict_json.read(path, CONFIG_LIMIT) if path.exists() else {}
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    document["eos_token_id"] = list(dict.fromkeys([*declared, *own, end]))
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
