"""Sandbox for code that a policy wrote: no network, files, other processes or expected answers.

`run_calls(code, calls)` calls functions of Python and brings back what each call gave; `run_call`
calls one, in JavaScript too, and `prepare_call` compiles one of C or C++ to be called;
`prepare_program` makes a program, compiled inside a guest if it has to be, that runs against an
input; `run_checks` runs tests that are written in Python, which call the code in another guest. The
caller compares. Every guest is bubblewrap's (bubblewrap.py), or forked inside of one (forking.py);
without it nothing is run at all.
"""

from apps.rewards.sandbox.bubblewrap import TOO_MUCH, TOO_SLOW, GuestResult, NoSandbox
from apps.rewards.sandbox.cgroups import delegation
from apps.rewards.sandbox.checks import CheckResult, Checks, run_checks
from apps.rewards.sandbox.compiled_calls import CompiledCall, prepare_call
from apps.rewards.sandbox.functions import Call, Outcome, as_json, run_call, run_calls
from apps.rewards.sandbox.languages import LANGUAGES, NoTool, require_tool
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.programs import DoesNotCompile, Program, prepare_program
from apps.rewards.sandbox.usage import TOO_MUCH_MEMORY

__all__ = [
    "LANGUAGES",
    "TOO_MUCH",
    "TOO_MUCH_MEMORY",
    "TOO_SLOW",
    "Call",
    "CheckResult",
    "Checks",
    "CompiledCall",
    "DoesNotCompile",
    "GuestResult",
    "Limits",
    "NoSandbox",
    "NoTool",
    "Outcome",
    "Program",
    "as_json",
    "delegation",
    "prepare_call",
    "prepare_program",
    "require_tool",
    "run_call",
    "run_calls",
    "run_checks",
]
