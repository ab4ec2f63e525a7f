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
    request = sys.stdin.buffer
    output = sys.stdout.buffer
    while length := request.read(LENGTH):
        _answer(request.read(int.from_bytes(length)), output)


def _answer(raw: bytes, output: BinaryIO) -> None:
    png = b""
    try:
        picture = encode_confined(raw)
        png = picture.png
        answer = {
            "sha256": picture.sha256,
            "width": picture.width,
            "height": picture.height,
            "bytes": len(png),
        }
    except BadPicture as error:
        answer = {"refusal": str(error)}
    output.write(json.dumps(answer).encode() + b"\n" + png)
    output.flush()


if __name__ == "__main__":
    main()
