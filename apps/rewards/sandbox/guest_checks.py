"""Run tests in one guest and the answer that they call in another: a part of guest.py's text."""

import builtins
import itertools
import json
import os
import sys
import time
import types

from apps.rewards.sandbox.guest import ASKED, LONGEST_ERROR, module_named, quiet, told
from apps.rewards.sandbox.guest_calls import found, loaded
from apps.rewards.sandbox.prelude import prelude_names
from apps.rewards.sandbox.values import KIND, decode, encode, has_no_form

MOST_PARTS = 100_000  # of what is iterated over from outside


def run_reply(has_prelude):
    """Answer each line of standard input, a request of the tests, with one of standard output."""
    requests = os.fdopen(os.dup(0), "r")
    answered = os.fdopen(os.dup(1), "w")
    with open(ASKED, encoding="utf-8") as file:
        code = file.read()
    quiet(0, 1, 2)
    reply = Reply(code, has_prelude)
    for line in requests:
        answered.write(json.dumps(reply.answer(json.loads(line))) + "\n")
        answered.flush()
    os._exit(0)


class Reply:
    """Code of the answer, and those of its objects that the tests hold."""

    def __init__(self, code, has_prelude):
        self.held = []
        self.broken = None
        try:
            self.names = vars(loaded(code, has_prelude))
        except BaseException as error:
            self.broken = told(error)

    def answer(self, request):
        """Return what became of a request: a value, or an error with its type."""
        if self.broken is not None:
            return {"broken": self.broken}
        try:
            arguments = decode(request["args"], self.held.__getitem__)
            before = json.dumps(request["args"])
            given = getattr(self, request["do"])(
                self._target(request), *arguments, **self._named(request)
            )
            answered = {"value": encode(given, self._hold)}
            after = encode(arguments, self._hold)
            return answered if json.dumps(after) == before else {**answered, "args": after}
        except BaseException as error:
            return {"error": type(error).__name__, "told": told(error)}

    def _target(self, request):
        if "ref" in request:
            return self.held[request["ref"]]
        if request["name"] not in self.names and "Solution" not in self.names:
            raise NameError(f"name {request['name']!r} is not defined")
        return found(self.names, request["name"])

    def _named(self, request):
        return decode(request.get("kwargs", {}), self.held.__getitem__)

    def _hold(self, value):
        self.held.append(value)
        return {KIND: "ref", "v": len(self.held) - 1}

    @staticmethod
    def call(target, *args, **kwargs):
        return target(*args, **kwargs)

    @staticmethod
    def get(target):
        return target

    @staticmethod
    def attribute(target, name):
        return getattr(target, name)

    @staticmethod
    def set_attribute(target, name, value):
        setattr(target, name, value)

    @staticmethod
    def item(target, key):
        return target[key]

    @staticmethod
    def parts(target):
        return list(itertools.islice(target, MOST_PARTS))

    @staticmethod
    def truth(target):
        return bool(target)

    @staticmethod
    def length(target):
        return len(target)

    @staticmethod
    def text(target):
        return str(target)


# -- the tests, which call the answer in another guest ---------------------------------------------


def run_tests(has_prelude):
    """Run each check.

    Write a line to standard error with its verdict, its seconds and what went wrong.
    """
    with open(ASKED, encoding="utf-8") as file:
        asked = json.loads(file.read())
    border = Border(os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w"))
    verdicts = os.fdopen(os.dup(2), "w")
    quiet(0, 1, 2)
    for check in asked["checks"]:
        began = time.monotonic()
        verdict, why = border.verdict_on(asked, check, has_prelude)
        verdicts.write(json.dumps([verdict, round(time.monotonic() - began, 3), why]) + "\n")
        verdicts.flush()
        if verdict != "passed" and not asked["all"]:
            break
    os._exit(0)


class Broken(BaseException):
    """Raised when the code does not load, or its guest has ended; tests cannot catch it."""


class Remote:
    """Proxy of a function, class or object of the answer, which stays in its guest."""

    def __init__(self, border, where):
        vars(self).update(_border=border, _where=where)

    def __call__(self, *args, **kwargs):
        return self._border.asked("call", self._where, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._border.asked("attribute", self._where, (name,))

    def __setattr__(self, name, value):
        self._border.asked("set_attribute", self._where, (name, value))

    def __getitem__(self, key):
        return self._border.asked("item", self._where, (key,))

    def __iter__(self):
        return iter(self._border.asked("parts", self._where, ()))

    def __bool__(self):
        return bool(self._border.asked("truth", self._where, ()))

    def __len__(self):
        return self._border.asked("length", self._where, ())

    def __str__(self):
        return str(self._border.asked("text", self._where, ()))

    def __eq__(self, other):  # never the object's own, which may call everything equal
        return isinstance(other, Remote) and self._where == other._where and "ref" in self._where

    def __hash__(self):
        return hash(tuple(sorted(self._where.items())))


class Names(dict):
    """Namespace of the tests: built-in functions, the prelude, and the answer's names.

    The answer's never come first: a function of its own called `abs` or `set` must not judge it.
    """

    def __init__(self, border, has_prelude):
        super().__init__({**prelude_names(), **vars(builtins)} if has_prelude else vars(builtins))
        self._border = border

    def __missing__(self, name):
        if name.startswith("__"):
            raise KeyError(name)
        return Remote(self._border, {"name": name})


class Border:
    """Channel from the tests to the answer: requests go out, values come back, as JSON."""

    def __init__(self, answered, requests):
        self.answered = answered
        self.requests = requests
        self.error = None  # the last that the answer raised, and what it said
        self.requested = 0

    def verdict_on(self, asked, check, has_prelude):
        self.error = None
        self.requested = 0
        try:
            self._run(asked, check, has_prelude)
        except Broken as broken:
            return "broken", str(broken)
        except BaseException as error:
            if self.error is not None and error is self.error[0]:
                return "error", self.error[1]
            if isinstance(error, AssertionError):
                return "wrong", ""
            is_of_tests = isinstance(error, ImportError | SyntaxError)
            return ("unusable" if is_of_tests else "error"), f"the test ended with {told(error)}"
        return (
            ("passed", "")
            if self.requested
            else ("unusable", "the test never calls the submitted code")
        )

    def _run(self, asked, check, has_prelude):
        """Run one check in a module of its own, then what in it is a test by its name or class."""
        names = vars(module_named("tests", False))
        names["__builtins__"] = Names(self, has_prelude)
        sys.modules["solution"] = SolutionModule(self)
        exec(compile(asked["setup"], "setup", "exec"), names)  # noqa: S102
        before = set(names)
        if asked["function"]:
            names[asked["function"]] = Remote(self, {"name": asked["function"]})
        exec(compile(check, "check", "exec"), names)  # noqa: S102
        for name in [name for name in names if name.startswith("test_") and name not in before]:
            if isinstance(names[name], types.FunctionType):
                names[name]()
        if "unittest" in sys.modules:
            run_test_cases([names[name] for name in names if name not in before])

    def asked(self, do, where, args, kwargs=None):
        """Return what the answer gave, or raise what it raised."""
        self.requested += 1
        sent = encode(args, reference_of)["v"]
        request = {"do": do, **where, "args": sent}
        if kwargs:
            request["kwargs"] = encode(kwargs, reference_of)
        try:
            self.requests.write(json.dumps(request) + "\n")
            self.requests.flush()
            line = self.answered.readline()
        except OSError:
            line = ""
        try:
            answered = json.loads(line) if line else {"broken": "its process ended"}
        except ValueError:
            answered = {"broken": "the result cannot be read"}
        return self._value(answered, args)

    def _value(self, answered, args):
        if not isinstance(answered, dict) or "broken" in answered:
            raise Broken(
                str(answered["broken"]) if isinstance(answered, dict) else "it gave no value"
            )
        if "error" in answered:
            raised = getattr(builtins, str(answered["error"]), RuntimeError)
            is_error = isinstance(raised, type) and issubclass(raised, Exception)
            error = (raised if is_error else RuntimeError)(str(answered.get("told")))
            self.error = (error, str(answered.get("told"))[:LONGEST_ERROR])
            raise error
        for argument, after in zip(args, self._decoded(answered.get("args", [])), strict=False):
            take_over(argument, after)
        return self._decoded(answered.get("value"))

    def _decoded(self, document):
        try:
            return decode(document, lambda place: Remote(self, {"ref": int(place)}))
        except (ValueError, TypeError, RecursionError):
            raise Broken("the result cannot be read") from None


def run_test_cases(found):
    """Run the classes of tests among these; the first that fails raises what it raised."""
    unittest = sys.modules["unittest"]
    for case in found:
        if (
            isinstance(case, type)
            and issubclass(case, unittest.TestCase)
            and case is not unittest.TestCase
        ):
            unittest.defaultTestLoader.loadTestsFromTestCase(case).debug()


class SolutionModule(types.ModuleType):
    """Module `solution`, from which tests may import the answer's functions."""

    def __init__(self, border):
        super().__init__("solution")
        self._border = border

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Remote(self._border, {"name": name})


def reference_of(value):
    if isinstance(value, Remote) and "ref" in value._where:
        return {KIND: "ref", "v": value._where["ref"]}
    if isinstance(value, Remote):
        return reference_of(value._border.asked("get", value._where, ()))
    return (
        encode(list(value))
        if isinstance(value, range | types.GeneratorType)
        else has_no_form(value)
    )


def take_over(argument, after):
    """Let the test see how the call changed an argument."""
    if isinstance(argument, list) and isinstance(after, list):
        argument[:] = after
    elif isinstance(argument, dict | set) and type(after) is type(argument):
        argument.clear()
        argument.update(after)
