"""Chat templates that can be given to a model by name."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("chat_templates")
TEMPLATE_LIMIT = 1 << 20  # bytes of a template


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
