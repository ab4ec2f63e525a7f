"""Where the verifiers package's tasksets are played: a process of its own virtual environment, and which of them may be."""

import json
import os
import select
import subprocess
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ValidationError

from apps.accounts import strict_json
from apps.environments.models import Environment
from apps.environments.pull.errors import CallFailed

CHILD = Path(__file__).with_name("verifiers_child.py")
MISSING = "the verifiers package is not installed here: scripts/setup --with verifiers"
START_S = 120.0  # it imports slowly
MEMORY_BYTES = 4 << 30  # of data, for it and for each process that it starts


def require_allowed(environment: Environment) -> None:
    """Raises ValidationError naming the field: the package is missing, or the installation does not list this taskset."""
    if not settings.VERIFIERS_PYTHON.exists():
        raise ValidationError({"kind": MISSING})
    if environment.address not in settings.VERIFIERS_TASKSETS:
        known = ", ".join(settings.VERIFIERS_TASKSETS) or "none"
        raise ValidationError({"address": f"may not be played here; RFTWEB_VERIFIERS lists the tasksets that may: {known}"})


def started() -> subprocess.Popen:
    """The process that plays: questions in, answers out, a line each. It sees nothing of our environment but where programs are."""
    command = [settings.VERIFIERS_PYTHON, "-P", CHILD, str(MEMORY_BYTES)]
    seen = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**seen, "PYTHONPATH": settings.VERIFIERS_PATH, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


def tried(environment: Environment) -> str | list:
    """The first observation of an episode there. Raises CallFailed."""
    child = started()
    asked = {"episode": 0, "name": environment.address, "seed": 0, "options": environment.options, "actions": []}
    try:
        child.stdin.write(json.dumps(asked).encode() + b"\n")
        child.stdin.flush()
        if not select.select([child.stdout], [], [], START_S + environment.turn_s)[0]:
            raise CallFailed(f"took longer than {START_S + environment.turn_s:g} s")
        answer = strict_json.decode(child.stdout.readline())
    except (BrokenPipeError, strict_json.NotStrictJson) as error:
        raise CallFailed(f"its process ended, or says what is no JSON: {error}") from None
    finally:
        with suppress(BrokenPipeError):
            child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(3)
        child.kill()
        child.stdout.close()
    if "error" in answer:
        raise CallFailed(str(answer["error"]))
    return answer["observation"]
