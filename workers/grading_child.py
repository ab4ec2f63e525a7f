"""Judge for `workers.grading`: read a question a line, say "ready", and write its verdicts a line.

There is no database here, and no secret.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from apps.plugins.registry import REGISTRY
from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer

PR_SET_PDEATHSIG = 1


def main(memory_bytes: int, plugins: str = "") -> None:
    """Answer questions until there are none. `plugins`: the plugins folder, "" for none."""
    REGISTRY.use(Path(plugins) if plugins else None)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Only the soft limit, which holds us: guests of the sandbox that a scorer starts have hard
    # limits of their own, some larger.
    resource.setrlimit(
        resource.RLIMIT_AS, (memory_bytes, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with _answers() as answers:
        send_answers(answers, "up")
        for line in sys.stdin.buffer:
            question = json.loads(line)
            prepare_scorer(question)
            send_answers(answers, "ready")
            send_answers(answers, answered(question))


def _answers() -> TextIO:
    """Return the original standard output, and redirect standard output to standard error.

    Scorers' libraries may print; that output must not mix with the answers.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def send_answers(answers: TextIO, what: object) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def prepare_scorer(question: dict[str, Any]) -> None:
    """Load the scorer and what it needs for this task; its verdict reports failures."""
    with contextlib.suppress(Exception, SystemExit):
        find_scorer(question["scorer"]).prepare(TaskView(**question["task"]), question["options"])


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """Judge a question; return its verdicts, and the seconds by the clock and of the processor."""
    began = time.perf_counter()
    used = _processor_seconds()
    verdicts = [vars(verdict) for verdict in judge_question(question)]
    return {
        "verdicts": verdicts,
        "clock": time.perf_counter() - began,
        "processor": _processor_seconds() - used,
    }


def _processor_seconds() -> float:
    """Return what this process has used, with the children that it has waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    spent = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def judge_question(question: dict[str, Any]) -> list[Verdict]:
    """Judge a question.

    A scorer that raises has failed, not judged: NULL with the error's words.
    """
    try:
        rollouts = [RolloutView(**rollout) for rollout in question["rollouts"]]
        return find_scorer(question["scorer"]).judge(
            rollouts, TaskView(**question["task"]), question["options"]
        )
    except (
        Exception
    ) as error:  # the loop around one unit of work: whatever went wrong belongs to this question
        return [Verdict(None, f"{type(error).__name__}: {error}"[:300])] * len(question["rollouts"])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
