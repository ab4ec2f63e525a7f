"""Run scorers in child processes with limits: a grader that hangs must die alone.

Model output attacks graders. A child is resident and answers a line for each question; it is killed
and restarted when a question takes too much processor time or exhausts its memory, and that
question alone gets NULL with the reason. What a scorer loads first is not counted, nor is the time
for which a busy machine lets the child wait. Several children judge at once.

Questions that take less than a switch between two processes are sent to a child together, as many
as PART_S allows; a child that dies at one of them is replaced, and gets those after it.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from queue import SimpleQueue
from typing import Any

import psutil

from apps.plugins.registry import REGISTRY
from apps.rewards import scorers
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, Question
from apps.runs.costs import CPU

MEMORY_BYTES = 1 << 30
START_S = 300.0  # for a child's first words: it loads its libraries, and the machine may be busy
MAX_CHILDREN = 4
POLL_S = 0.05  # how often a child that has not answered is looked at
PART_S = 0.02  # how long the questions take, lately, that a child is sent together
PART_BYTES = 32 << 10  # at most this much is sent together: it fits into an empty pipe
MAX_REPEATS = 20  # of a question's seconds by the clock: the end even of what waits for others
WORKING = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)


class GraderDied(Exception):
    """Raised when the child gave no answer; the message says how it ended."""


class GradingCost:
    """Cost of a question for its child process: processor time, and time in which it was idle."""

    def __init__(self, pid: int) -> None:
        self.process = psutil.Process(pid)
        self.before = self._processor_time()
        self.began = self.looked = time.monotonic()
        self.idle = 0.0

    def _processor_time(self) -> float:
        """Read what the process has used, with the children that it has waited for."""
        seconds: float = sum(self.process.cpu_times()[:4])
        return seconds

    @property
    def processor_time(self) -> float:
        try:
            return self._processor_time() - self.before
        except psutil.NoSuchProcess:
            return 0.0

    @property
    def clock(self) -> float:
        return time.monotonic() - self.began

    def look(self) -> None:
        """Count the time since the last look as idle if no process works: all sleep or are stopped.

        What it has started, as guests of the sandbox, works for it.
        """
        now = time.monotonic()
        is_working = any(map(_works, (self.process, *self.process.children(recursive=True))))
        self.idle += 0.0 if is_working else now - self.looked
        self.looked = now

    def exceeds(self, seconds: float) -> bool:
        try:
            self.look()
        except psutil.NoSuchProcess:
            return False  # the end of its answers says how it ended
        spent = self.processor_time + self.idle
        return spent > seconds or self.clock > MAX_REPEATS * seconds


def _works(process: psutil.Process) -> bool:
    """Tell whether it runs, or would if a processor were free."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() in WORKING
    return False


@dataclass(frozen=True)
class EncodedQuestion:
    """A question, and the line that a child is sent."""

    question: Question
    line: bytes

    @classmethod
    def encoded(cls, question: Question) -> "EncodedQuestion":
        return cls(question, json.dumps(vars(question), default=vars).encode() + b"\n")


class Child:
    """A killable process that scores, one question after the other."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self.memory_bytes = memory_bytes
        self.process: subprocess.Popen[bytes] | None = None
        self.unread = b""
        self.effort: GradingCost | None = None  # of the question that takes longer than POLL_S

    def answers(
        self, questions: Sequence["EncodedQuestion"], seconds: float
    ) -> list[AnsweredQuestion]:
        """Return the answer to each question, in order.

        They are sent together. A question at which the child dies, or that takes longer than
        `seconds`, gets no value but the reason; the ones after it are sent to a new child.
        """
        answers: list[AnsweredQuestion] = []
        while len(answers) < len(questions):
            unanswered = questions[len(answers) :]
            self.effort = None
            try:
                self._send(unanswered)
                for encoded in unanswered:
                    answers.append(_read(encoded.question, self._answer(seconds)))
            except GraderDied as death:
                self.stop()
                clock = self.effort.clock if self.effort else 0.0
                question = questions[len(answers)].question
                answers.append(_without_value(question, death, clock))
        return answers

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self.process is not None  # started with the first question
        return self.process

    def _send(self, questions: Sequence["EncodedQuestion"]) -> None:
        """Write the questions, which fit into an empty pipe; or a single one of any size."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        pipe = self._child.stdin
        assert pipe is not None  # a pipe
        try:
            pipe.write(b"".join(question.line for question in questions))
            pipe.flush()
        except BrokenPipeError:
            raise GraderDied("its process ended") from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        """Return the child's answer to its next question.

        The child is looked at once it takes longer than POLL_S.
        """
        self._first_word()  # what it loads is not counted
        self.effort = None
        while (answer := self._line(POLL_S)) is None:
            self.effort = self.effort or GradingCost(self._child.pid)
            if self.effort.exceeds(seconds):
                raise GraderDied(f"took longer than {seconds:g} s of CPU time")
        document: dict[str, Any] = json.loads(answer)
        return document

    def _first_word(self) -> None:
        """Wait until it has loaded what it needs."""
        if self._line(START_S) is None:
            raise GraderDied(f"did not load within {START_S:g} s")

    def _line(self, wait: float) -> bytes | None:
        """Return the next line, None where nothing comes for so long. Raises GraderDied."""
        assert self._child.stdout is not None  # a pipe
        pipe = self._child.stdout.fileno()
        while b"\n" not in self.unread:
            if not select.select([pipe], [], [], wait)[0]:
                return None
            more = os.read(pipe, 1 << 16)
            if not more:
                raise GraderDied(f"the process exited with {self._child.wait()}")
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def _start(self) -> None:
        plugins = str(REGISTRY.folder or "")
        command = [sys.executable, "-m", "workers.grading_child", str(self.memory_bytes), plugins]
        self.unread = b""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path)},
        )
        self._first_word()  # it says when it is up, so that its start costs no question its time

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


class Grader:
    """Pool of grading processes: one per processor, at most `MAX_CHILDREN`, started on demand."""

    def __init__(self, children: int | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self.children = [
            Child(memory_bytes) for _ in range(children or min(MAX_CHILDREN, os.cpu_count() or 1))
        ]
        # Kept as long as the children: a child dies with the thread that started it, not only with
        # the process.
        self.threads = ThreadPoolExecutor(len(self.children), thread_name_prefix="grader")
        self.free: SimpleQueue[Child] = SimpleQueue()
        self.pace: dict[str, float] = {}  # seconds of a question lately, by scorer
        for child in self.children:
            self.free.put(child)

    def grade(
        self, questions: Sequence[Question], seconds: float | None = None
    ) -> list[AnsweredQuestion]:
        """Return each question's answer, in order.

        `seconds` for one question: its scorer's own, unless told.
        """
        parts = self.threads.map(lambda part: self._grade(part, seconds), self._parts(questions))
        return [answer for part in parts for answer in part]

    def _parts(self, questions: Sequence[Question]) -> Iterator[list[EncodedQuestion]]:
        """Yield the questions that a child is sent together, all for the same scorer."""
        for scorer, alike in groupby(questions, key=attrgetter("scorer")):
            max_count = int(PART_S / max(self.pace.get(scorer, PART_S), 1e-6))
            yield from _split_questions(map(EncodedQuestion.encoded, alike), max(1, max_count))

    def _grade(
        self, questions: Sequence[EncodedQuestion], seconds: float | None
    ) -> list[AnsweredQuestion]:
        scorer = questions[0].question.scorer
        with self._child() as child:
            answers = child.answers(questions, _limit(scorer) if seconds is None else seconds)
        spent = 0.0
        for answer in answers:
            assert answer.seconds is not None  # a child measures every question
            spent += answer.seconds
        mean = spent / len(answers)
        self.pace[scorer] = (self.pace.get(scorer, mean) + mean) / 2
        return answers

    @contextlib.contextmanager
    def _child(self) -> Iterator[Child]:
        child = self.free.get()
        try:
            yield child
        finally:
            self.free.put(child)

    def stop(self) -> None:
        """Stop the child processes; the next question starts them again."""
        for child in self.children:
            child.stop()


def _split_questions(
    questions: Iterable[EncodedQuestion], max_count: int
) -> Iterator[list[EncodedQuestion]]:
    """Yield them in lists of at most `max_count` and PART_BYTES; a larger one comes alone."""
    part: list[EncodedQuestion] = []
    size = 0
    for question in questions:
        if part and (len(part) == max_count or size + len(question.line) > PART_BYTES):
            yield part
            part = []
            size = 0
        part.append(question)
        size += len(question.line)
    if part:
        yield part


def _read(question: Question, answer: dict[str, Any]) -> AnsweredQuestion:
    verdicts = [Verdict(**verdict) for verdict in answer["verdicts"]]
    return AnsweredQuestion(
        question, verdicts, answer["clock"], {f"scorer.{CPU}": answer["processor"]}
    )


def _without_value(question: Question, death: GraderDied, clock: float) -> AnsweredQuestion:
    reason = f"scorer {question.scorer}: {death}"
    return AnsweredQuestion(question, [Verdict(None, reason)] * len(question.rollouts), clock)


def _limit(scorer: str) -> float:
    return (
        scorers.find_scorer(scorer).seconds if scorer in scorers.scorer_names() else scorers.SECONDS
    )
