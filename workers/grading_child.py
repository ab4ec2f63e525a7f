"""The child of `workers.grading`: reads a question a line, writes a verdict a line. No database, no secrets."""

import ctypes
import json
import resource
import signal
import sys

from apps.rewards.scorers import Verdict, judge

PR_SET_PDEATHSIG = 1


def main(memory_bytes: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(vars_of(judged(json.loads(line)))) + "\n")
        sys.stdout.flush()


def judged(question: dict) -> Verdict:
    """A scorer that raises has failed, not judged: NULL with the error's words."""
    try:
        return judge(question["scorer"], question["prompt"], question["turns"], question["text"], question["answer"])
    except Exception as error:  # the loop around one unit of work: whatever went wrong belongs to this question
        return Verdict(None, f"{type(error).__name__}: {error}"[:300], {})


def vars_of(verdict: Verdict) -> dict:
    return {"value": verdict.value, "reason": verdict.reason, "details": verdict.details}


if __name__ == "__main__":
    main(int(sys.argv[1]))
