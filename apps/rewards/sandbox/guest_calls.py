"""Answer calls of functions, inside of a guest: a part of guest.py's text."""

import json
import os
import sys

from apps.rewards.sandbox.guest import module_named, quiet, told
from apps.rewards.sandbox.values import encode


def run_calls(has_prelude):
    """Read `code` and `calls` as JSON; write a line with what each call gave."""
    out = os.fdopen(os.dup(1), "w")
    asked = json.loads(sys.stdin.read())
    quiet(1, 2)  # what the code prints is no answer
    out.write(json.dumps(answers(asked["code"], asked["calls"], has_prelude)) + "\n")
    out.flush()
    os._exit(0)  # whatever the code left to be done at the end is not done


def answers(code, calls, has_prelude):
    try:
        module = loaded(code, has_prelude)
    except BaseException as error:
        return [{"error": told(error)} for _ in calls]
    return [answer(vars(module), *call) for call in calls]


def loaded(code, has_prelude):
    program = compile(code, "answer", "exec")
    module = module_named("answer", has_prelude)
    exec(program, vars(module))  # noqa: S102  (what a sandbox is for)
    return module


def answer(names, function, arguments, keywords):
    try:
        called = found(names, function)
        if called is None:
            return {"error": f"function {function} not found"}
        return {"value": encode(called(*arguments, **keywords))}
    except BaseException as error:
        return {"error": told(error)}


def found(names, name):
    """Return a function of the code's own, or a method of its `Solution`.

    None where there is none.
    """
    if name in names:
        return names[name]
    return getattr(names["Solution"](), name, None) if "Solution" in names else None
