"""Run what a policy wrote, inside of a guest. Standard library alone.

The text of this file is given to a bare interpreter there, with those of the others that its role
needs. `main` is told the role: to run a `program` or a `binary`, to answer `calls` of functions
(guest_calls.py), to be the `answer` that tests call, or to run the `tests` (guest_checks.py).
"""

import _thread
import builtins
import os
import sys

from apps.rewards.sandbox.prelude import lift_limits, prelude_names

PROGRAM = "/code/program.py"
REQUEST = "/code/request"
BINARY = "/code/binary"
LIBRARIES = "/libraries"  # where those stand that the machine has, such as numpy
THREAD_STACK = 16 << 20  # bytes; the first thread's may be as large as the memory
MAX_THREAD_STACK = 128 << 20  # programs ask for more than they need
MAX_ERROR_LENGTH = 200


def main(role, has_prelude):
    """Do what the role asks for."""
    if role == "binary":
        os.execv(BINARY, [BINARY])  # a compiled program; Python ends here
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # numbers may be of any length
    bound_thread_stacks()
    if LIBRARIES not in sys.path:
        sys.path.append(LIBRARIES)
    globals()[f"run_{role}"](has_prelude)


def bound_thread_stacks():
    """Let threads have small stacks, and large ones where the code asks, but not all of the
    memory.
    """
    set_size = _thread.stack_size
    set_size(THREAD_STACK)

    def stack_size(size=0):
        return set_size(min(size, MAX_THREAD_STACK))

    _thread.stack_size = stack_size
    if "threading" in sys.modules:
        # The type of all modules has no such name.
        sys.modules["threading"].stack_size = stack_size  # type: ignore[attr-defined]


def new_module(name, has_prelude):
    """Return a new module for the code, with the prelude's names if it has one.

    They are builtins, not names of the module: a function that the code lacks stays undefined.
    """
    module = type(sys)(name)
    builtin_names: object = builtins
    if has_prelude:
        lift_limits()
        builtin_names = {**vars(builtins), **prelude_names()}
    vars(module).update(__name__=name, __builtins__=builtin_names)
    sys.modules[name] = module
    return module


def discard_output(*descriptors):
    """Discard output to these descriptors."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def describe_error(error):
    """Return an error's type and text, in characters that can be stored."""
    try:
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR_LENGTH]
        return text.encode("ascii", "backslashreplace").decode().replace("\0", "")
    except BaseException:  # an error of the code's own making, that cannot be shown
        return "an error"


# -- a program -------------------------------------------------------------------------------------


def run_program(has_prelude):
    sitebuiltins = __import__("_sitebuiltins")
    for name in ("exit", "quit"):
        setattr(builtins, name, sitebuiltins.Quitter(name, "the end of the file"))
    sys.argv = [PROGRAM]
    with open(PROGRAM, encoding="utf-8", errors="replace") as file:
        source = file.read()
    code = compile(source, "program.py", "exec")
    exec(code, vars(new_module("__main__", has_prelude)))  # noqa: S102  (what a sandbox is for)
