"""Scorers run in child processes with limits: model output attacks graders, and a grader that hangs must die alone.

A child is resident and answers one JSON line for each; it is killed and restarted when a question takes too
long or exhausts its memory, and that question alone gets NULL with the reason. Several children judge at once.
"""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from queue import SimpleQueue

from apps.rewards import scorers
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import Answered, Question
from apps.runs.costs import CPU

MEMORY_BYTES = 1 << 30
START_S = 300.0  # for a child’s first words: it loads its libraries, and the machine may be busy
MOST_CHILDREN = 4


class GraderDied(Exception):
    """The child gave no answer; the message says how it ended."""


class Child:
    """A killable process that scores, one question at a time."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self.memory_bytes = memory_bytes
        self.process: subprocess.Popen | None = None

    def answer(self, question: Question, seconds: float) -> Answered:
        """A verdict for each rollout of the question; when the scorer died of it, values of None that say so."""
        began = time.monotonic()
        try:
            said = self._ask(json.dumps(asdict(question)).encode() + b"\n", seconds)
        except GraderDied as death:
            self.stop()
            said = [{"value": None, "reason": f"scorer {question.scorer}: {death}", "details": {}}] * len(question.rollouts)
        seconds = time.monotonic() - began
        return Answered(question, [Verdict(**verdict) for verdict in said], seconds, {f"scorer.{CPU}": seconds})

    def _ask(self, line: bytes, seconds: float) -> list[dict]:
        if self.process is None or self.process.poll() is not None:
            self._start()
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise GraderDied("its process ended") from None
        return json.loads(self._heard(seconds))

    def _heard(self, seconds: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise GraderDied(f"took longer than {seconds:g} s")
        answer = self.process.stdout.readline()
        if not answer:
            raise GraderDied(f"its process ended with {self.process.wait()}")
        return answer

    def _start(self) -> None:
        command = [sys.executable, "-m", "workers.grading_child", str(self.memory_bytes)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
        )
        self._heard(START_S)  # it says when it is up, so that its start costs no question its time

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


class Grader:
    """As many children as the machine has processors, at most `MOST_CHILDREN`; they start when they are needed."""

    def __init__(self, children: int | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self.children = [Child(memory_bytes) for _ in range(children or min(MOST_CHILDREN, os.cpu_count() or 1))]
        # Kept as long as the children: a child dies with the thread that started it, not only with the process.
        self.threads = ThreadPoolExecutor(len(self.children), thread_name_prefix="grader")
        self.free: SimpleQueue[Child] = SimpleQueue()
        for child in self.children:
            self.free.put(child)

    def grade(self, questions: Sequence[Question], seconds: float | None = None) -> list[Answered]:
        """Each question's answer, in order. `seconds` for one question: its scorer's own, unless told."""
        return list(self.threads.map(lambda question: self._grade_one(question, seconds), questions))

    def _grade_one(self, question: Question, seconds: float | None) -> Answered:
        with self._child() as child:
            return child.answer(question, _limit(question.scorer) if seconds is None else seconds)

    @contextlib.contextmanager
    def _child(self):
        child = self.free.get()
        try:
            yield child
        finally:
            self.free.put(child)

    def stop(self) -> None:
        """Ends the children; the next question starts them again."""
        for child in self.children:
            child.stop()


def _limit(scorer: str) -> float:
    return scorers.find(scorer).seconds if scorer in scorers.names() else scorers.SECONDS
