"""Between messages and token ids: the policy's own chat template and tokenizer. Ids are the truth, text a rendering."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

UNFINISHED_CHARACTER = "\ufffd"


class Speaker:
    """A policy's tokenizer, loaded from its sealed folder (no code from the folder runs)."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        return (self.tokenizer.eos_token_id,)

    def prompt_ids(self, messages: list[dict]) -> tuple[int, ...]:
        """The messages by the chat template, ready for the policy's turn."""
        encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)
        return tuple(encoded["input_ids"])

    def text(self, token_ids: list[int]) -> str:
        return self.tokenizer.decode(token_ids, skip_special_tokens=True)


class Typist:
    """Text of a growing sequence, piece by piece; a character split over tokens waits for its last one.

    Each piece is decoded with a few tokens of context before it, so spaces between words come out right and
    the cost stays constant however long the sequence grows.
    """

    def __init__(self, speaker: Speaker) -> None:
        self.speaker, self.ids, self.context, self.shown = speaker, [], 0, 0

    def push(self, token_ids: tuple[int, ...]) -> str:
        """The text that these tokens add."""
        self.ids += token_ids
        before = self.speaker.text(self.ids[self.context : self.shown])
        now = self.speaker.text(self.ids[self.context :])
        if now.endswith(UNFINISHED_CHARACTER):
            return ""
        self.context, self.shown = self.shown, len(self.ids)
        return now[len(before) :]
