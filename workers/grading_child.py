"""The child of `workers.grading`: reads a question a line, writes its verdicts a line. No database, no secrets."""

import ctypes
import json
import os
import resource
import signal
import sys
from dataclasses import asdict
from typing import TextIO

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find

PR_SET_PDEATHSIG = 1


def main(memory_bytes: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Only the soft limit, which holds us: guests of the sandbox that a scorer starts have hard limits of their own, some larger.
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with _answers() as answers:
        say(answers, "up")
        for line in sys.stdin.buffer:
            say(answers, [asdict(verdict) for verdict in judged(json.loads(line))])


def _answers() -> TextIO:
    """What was standard output. Whatever a scorer's libraries print is no answer: from now on it goes where errors go."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def say(answers: TextIO, what: object) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def judged(question: dict) -> list[Verdict]:
    """A scorer that raises has failed, not judged: NULL with the error's words."""
    try:
        rollouts = [RolloutView(**rollout) for rollout in question["rollouts"]]
        return find(question["scorer"]).judge(rollouts, TaskView(**question["task"]), question["options"])
    except Exception as error:  # the loop around one unit of work: whatever went wrong belongs to this question
        return [Verdict(None, f"{type(error).__name__}: {error}"[:300])] * len(question["rollouts"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
