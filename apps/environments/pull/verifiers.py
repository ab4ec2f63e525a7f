"""Process for tasksets of the verifiers package, in its own virtual environment.

The installation lists the tasksets that may be played.
"""

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
MISSING = "the verifiers package is not installed here: run scripts/setup --with verifiers"
START_S = 120.0  # the package imports slowly
MEMORY_BYTES = 4 << 30  # bytes of data, for this process and for each that it starts


def require_allowed_taskset(environment: Environment) -> None:
    """Raise ValidationError by field when the package is missing or the taskset is not listed."""
    if not settings.VERIFIERS_PYTHON.exists():
        raise ValidationError({"kind": MISSING})
    if environment.address not in settings.VERIFIERS_TASKSETS:
        allowed = ", ".join(settings.VERIFIERS_TASKSETS) or "none"
        raise ValidationError(
            {
                "address": (
                    f"is not allowed here; RFTWEB_VERIFIERS lists the allowed tasksets: {allowed}"
                )
            }
        )


def start_verifiers_process() -> subprocess.Popen[bytes]:
    """Start the process: one request per line in, one reply per line out.

    Of our environment variables it sees only the path of programs.
    """
    command: list[str | Path] = [settings.VERIFIERS_PYTHON, "-P", str(CHILD), str(MEMORY_BYTES)]
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**variables, "PYTHONPATH": settings.VERIFIERS_PATH, "OPENBLAS_NUM_THREADS": "1"},
    )


def try_episode(environment: Environment) -> str | list:
    """Return the first observation of an episode there. Raises CallFailed."""
    child = start_verifiers_process()
    request = {
        "episode": 0,
        "name": environment.address,
        "seed": 0,
        "options": environment.options,
        "actions": [],
    }
    assert child.stdin is not None and child.stdout is not None  # both are pipes
    try:
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        if not select.select([child.stdout], [], [], START_S + environment.turn_s)[0]:
            raise CallFailed(f"took longer than {START_S + environment.turn_s:g} s")
        answer = strict_json.decode_json(child.stdout.readline())
    except (BrokenPipeError, strict_json.NotStrictJson) as error:
        raise CallFailed(f"its process ended, or its output is not JSON: {error}") from None
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
