"""Answer calls of functions, inside of a guest: a part of guest.py's text."""

import json
import os
import sys

from apps.rewards.sandbox.guest import describe_error, discard_output, new_module
from apps.rewards.sandbox.values import encode


def run_calls(has_prelude):
    """Read `code` and `calls` as JSON; write a line with what each call gave."""
    out = os.fdopen(os.dup(1), "w")
    request = json.loads(sys.stdin.read())
    discard_output(1, 2)  # what the code prints is no answer
    out.write(json.dumps(call_all(request["code"], request["calls"], has_prelude)) + "\n")
    out.flush()
    os._exit(0)  # whatever the code left to be done at the end is not done


def call_all(code, calls, has_prelude):
    try:
        module = load_module(code, has_prelude)
    except BaseException as error:
        return [{"error": describe_error(error)} for _ in calls]
    return [call_one(vars(module), *call) for call in calls]


def load_module(code, has_prelude):
    program = compile(code, "answer", "exec")
    module = new_module("answer", has_prelude)
    exec(program, vars(module))  # noqa: S102  (what a sandbox is for)
    return module


def call_one(names, function, arguments, keywords):
    try:
        target = find_function(names, function)
        if target is None:
            return {"error": f"function {function} not found"}
        return {"value": encode(target(*arguments, **keywords))}
    except BaseException as error:
        return {"error": describe_error(error)}


def find_function(names, name):
    """Return a function of the code's own, or a method of its `Solution`.

    None where there is none.
    """
    if name in names:
        return names[name]
    return getattr(names["Solution"](), name, None) if "Solution" in names else None
