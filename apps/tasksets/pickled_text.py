"""Read a pickle that holds one text and nothing else, without loading it.

A pickle is a program: loading one runs what its author wrote. This reader knows the few
instructions that put one text on the stack, and refuses every other.
"""

import struct

PROTOCOL = 0x80
FRAME = 0x95
STOP = ord(".")
MAX_PROTOCOL = 5
# Instructions that push a text: how the length in front of it is written.
TEXTS = {0x8C: "<B", ord("X"): "<I", 0x8D: "<Q"}
# Instructions that remember what is on the stack, with the bytes that follow them.
MEMOS = {0x94: 0, ord("q"): 1, ord("r"): 4}


class NotOneText(ValueError):
    """Raised for a pickle that is broken, or not one text; the message says what."""


def read_pickled_text(pickled: bytes) -> str:
    """Return the text. Raises NotOneText."""
    at = 0
    text = None
    while at < len(pickled):
        instruction = pickled[at]
        at += 1
        if instruction == PROTOCOL and at == 1:
            if pickled[at : at + 1] > bytes([MAX_PROTOCOL]):
                raise NotOneText("the pickle has an unknown protocol")
            at += 1
        elif instruction == FRAME:
            at += 8
        elif instruction in TEXTS and text is None:
            text, at = _text(pickled, at, TEXTS[instruction])
        elif instruction in MEMOS and text is not None:
            at += MEMOS[instruction]
        elif instruction == STOP and text is not None and at == len(pickled):
            return text
        else:
            raise NotOneText("the pickle must contain exactly one text")
    raise NotOneText("the pickle is truncated")


def _text(pickled: bytes, at: int, form: str) -> tuple[str, int]:
    """Return the text at this position, and the position after it."""
    begins = at + struct.calcsize(form)
    try:
        (length,) = struct.unpack(form, pickled[at:begins])
    except struct.error:
        raise NotOneText("the pickle is truncated") from None
    if begins + length > len(pickled):
        raise NotOneText("the pickle is truncated")
    try:
        return pickled[begins : begins + length].decode(), begins + length
    except UnicodeDecodeError:
        raise NotOneText("the text in the pickle is not UTF-8") from None
