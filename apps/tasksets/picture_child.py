"""Decode pictures in bounded memory, for processes that must not: `python -m
apps.tasksets.picture_child`.

On standard input 8 bytes of length and a picture, again and again. On standard output for each a
line of JSON, {"sha256", "width", "height", "bytes"} with the PNG's bytes behind it, or {"refusal"}.
"""

import json
import sys
from typing import BinaryIO

from apps.accounts.confining import confine
from apps.tasksets.pictures import BadPicture, encode_confined

MEMORY = 512 * 1024 * 1024  # bytes
LENGTH = 8  # bytes of the number before a picture


def main() -> None:
    confine(MEMORY, cpu_s=None)  # it decodes many pictures; whoever asks limits the time of each
    asked = sys.stdin.buffer
    said = sys.stdout.buffer
    while length := asked.read(LENGTH):
        _answer(asked.read(int.from_bytes(length)), said)


def _answer(raw: bytes, said: BinaryIO) -> None:
    png = b""
    try:
        picture = encode_confined(raw)
        png = picture.png
        told = {
            "sha256": picture.sha256,
            "width": picture.width,
            "height": picture.height,
            "bytes": len(png),
        }
    except BadPicture as error:
        told = {"refusal": str(error)}
    said.write(json.dumps(told).encode() + b"\n" + png)
    said.flush()


if __name__ == "__main__":
    main()
