"""Scorers run in a child process with limits: model output attacks graders, and a grader that hangs must die alone.

The child is resident and answers one JSON line for each; it is killed and restarted when a question takes too
long or exhausts its memory, and that question alone gets NULL with the reason.
"""

import json
import selectors
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from apps.rewards.scorers import Verdict
from apps.rewards.scoring import Question

SECONDS_PER_QUESTION = 5.0
MEMORY_BYTES = 1 << 30


class GraderDied(Exception):
    """The child gave no answer; the message says how it ended."""


class Grader:
    """A killable child that scores. Not thread-safe: one per worker process."""

    def __init__(self, seconds: float = SECONDS_PER_QUESTION, memory_bytes: int = MEMORY_BYTES) -> None:
        self.seconds, self.memory_bytes = seconds, memory_bytes
        self.child: subprocess.Popen | None = None

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """A verdict for each question, in order; a question the scorer died of has value None and says so."""
        return [self._grade_one(question) for question in questions]

    def _grade_one(self, question: Question) -> Verdict:
        try:
            answer = self._ask(json.dumps(asdict(question)).encode() + b"\n")
        except GraderDied as death:
            self.stop()
            return Verdict(None, f"scorer {question.scorer}: {death}", {})
        return Verdict(answer["value"], answer["reason"], answer["details"])

    def _ask(self, line: bytes) -> dict:
        child = self._living_child()
        try:
            child.stdin.write(line)
            child.stdin.flush()
        except BrokenPipeError:
            raise GraderDied("its process ended") from None
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            if not selector.select(self.seconds):
                raise GraderDied(f"took longer than {self.seconds:g} s")
        answer = child.stdout.readline()
        if not answer:
            raise GraderDied(f"its process ended with {child.wait()}")
        return json.loads(answer)

    def _living_child(self) -> subprocess.Popen:
        if self.child is None or self.child.poll() is not None:
            command = [sys.executable, "-m", "workers.grading_child", str(self.memory_bytes)]
            self.child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
            )
        return self.child

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
            self.child = None
