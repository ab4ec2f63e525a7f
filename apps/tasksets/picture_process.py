"""Decoding of pictures by a child process with bounded memory and time.

There is one child for each process of ours.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from apps.tasksets.picture_child import LENGTH
from apps.tasksets.pictures import BadPicture, EncodedPicture

MAX_SECONDS = 20.0  # for one picture
ROOT = Path(__file__).resolve().parents[2]
TOO_MUCH = "requires too much memory or time to decode"


class Decoder:
    """Child process that decodes pictures one by one; it is restarted when one kills it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.lock = threading.Lock()
        self.child: subprocess.Popen | None = None

    def decode(self, raw: bytes) -> EncodedPicture:
        """Decode a picture in the child process. Raises BadPicture."""
        with self.lock:
            if self.child is None or self.child.poll() is not None:
                self.child = self._start()
            limit = threading.Timer(MAX_SECONDS, self.child.kill)
            limit.start()
            try:
                return self._ask(self.child, raw)
            except BadPicture:
                raise
            except (OSError, EOFError, ValueError):  # it ended, before or while it answered
                self.child.kill()
                self.child.wait()
                raise BadPicture(TOO_MUCH) from None
            finally:
                limit.cancel()

    def _start(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "apps.tasksets.picture_child"]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, child: subprocess.Popen[bytes], raw: bytes) -> EncodedPicture:
        assert child.stdin is not None and child.stdout is not None  # both are pipes
        child.stdin.write(len(raw).to_bytes(LENGTH) + raw)
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
        if "refusal" in answer:
            raise BadPicture(answer["refusal"])
        png = child.stdout.read(answer["bytes"])
        if len(png) != answer["bytes"]:
            raise EOFError
        return EncodedPicture(answer["sha256"], answer["width"], answer["height"], png)


_decoder = Decoder()
_starting = threading.Lock()


def decode_apart(raw: bytes) -> EncodedPicture:
    """Decode a picture in this process's child. Raises BadPicture."""
    global _decoder
    with _starting:
        if _decoder.owner != os.getpid():  # forked: the child belongs to the parent
            _decoder = Decoder()
    return _decoder.decode(raw)
