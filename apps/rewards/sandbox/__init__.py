"""Where code that a policy wrote is run: apart from network, files, other processes and the answers that are expected.

`run(code, calls)` calls functions of Python and brings back what each call gave; `call` calls one, in JavaScript too, and
`prepare_call` compiles one of C or C++ to be called; `prepare` makes a program, compiled inside of a guest where it has to be, that
runs against an input. Whoever asked compares. There is one
kind of guest, bubblewrap's (bubblewrap.py); without it nothing is run at all.
"""

from apps.rewards.sandbox.bubblewrap import TOO_SLOW, Ended, NoSandbox
from apps.rewards.sandbox.cgroups import delegation
from apps.rewards.sandbox.compiled_calls import CompiledCall, prepare_call
from apps.rewards.sandbox.functions import Call, Outcome, call, run
from apps.rewards.sandbox.languages import LANGUAGES, NoTool, require
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.programs import DoesNotCompile, Program, prepare

__all__ = [
    "LANGUAGES",
    "TOO_SLOW",
    "Call",
    "CompiledCall",
    "DoesNotCompile",
    "Ended",
    "Limits",
    "NoSandbox",
    "NoTool",
    "Outcome",
    "Program",
    "call",
    "delegation",
    "prepare",
    "prepare_call",
    "require",
    "run",
]
