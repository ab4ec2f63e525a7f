"""Render a conversation by a chat template: `python -m workers.policies.preview FOLDER`.

Standard input is JSON with `messages` and `template`, which is empty for the model's own. Standard
output is JSON with `pieces`, each a text and whether it is a control token, and the number of
`tokens`, or with a `refusal`. Templates are foreign programs: memory and time are bounded.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

from jinja2 import TemplateError

from apps.accounts.confining import TooSlow, confine
from workers.chat_encoder import ChatEncoder, Markup, Message, UnsafeTemplate
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.policies.chat_check import in_parts
from workers.processes import die_with_parent

CPU_S = 10
MEMORY = 512 * 1024 * 1024  # bytes beyond the loaded libraries
MAX_SHOWN_LENGTH = 200_000  # characters of a rendered conversation
NO_TEMPLATE = "the model has no chat template; choose one"
REFUSALS = (
    TemplateError,
    TooSlow,
    UnsafeTemplate,
    MemoryError,
    OSError,
    TypeError,
    KeyError,
    ValueError,
)


class Rendered(TypedDict):
    """Conversation as a chat template renders it."""

    pieces: list[tuple[str, bool]]  # texts, and whether each is a control token
    tokens: int


def main() -> int:
    """Answer one request; return 0 also when the template fails, which the answer says."""
    die_with_parent(os.getppid())
    request = json.load(sys.stdin)
    confine(MEMORY, CPU_S)
    try:
        answer: Rendered | dict[str, str] = render_conversation(
            Path(sys.argv[1]), request["messages"], request["template"]
        )
    except REFUSALS as error:
        answer = {"refusal": f"{type(error).__name__}: {error}" if str(error) else "no memory"}
    json.dump(answer, sys.stdout)
    return 0


def render_conversation(folder: Path, messages: Sequence[Message], template: str) -> Rendered:
    """Return the pieces of the rendered conversation, ready for a reply, and its token count.

    Raises what is in REFUSALS.
    """
    chat_tokenizer = ChatTokenizer(folder)
    tokenizer = chat_tokenizer.tokenizer
    if template:
        tokenizer.chat_template = template
    if not tokenizer.chat_template:
        raise ValueError(NO_TEMPLATE)
    if chat_tokenizer.image_processor is not None:
        messages = [in_parts(message) for message in messages]
    encoder = ChatEncoder(tokenizer)
    text = encoder.render(messages)
    if len(text) > MAX_SHOWN_LENGTH:
        raise ValueError(f"the template writes more than {MAX_SHOWN_LENGTH:,} characters")
    return {"pieces": list(_pieces(encoder, text)), "tokens": len(encoder.encode(text))}


def _pieces(encoder: ChatEncoder, text: Markup) -> Iterator[tuple[str, bool]]:
    """Yield the text in order, control tokens apart from ordinary text."""
    names = sorted(encoder.control, key=len, reverse=True)
    marks = "|".join(re.escape(encoder.secret + name) for name in names) or r"(?!)"
    at = 0
    for mark in re.finditer(marks, text):
        if mark.start() > at:
            yield text[at : mark.start()], False
        yield mark[0].removeprefix(encoder.secret), True
        at = mark.end()
    if at < len(text):
        yield text[at:], False


if __name__ == "__main__":
    sys.exit(main())
