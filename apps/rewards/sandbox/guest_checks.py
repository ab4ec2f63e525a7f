"""Run tests in one guest and the answer that they call in another: a part of guest.py's text."""

import builtins
import itertools
import json
import os
import sys
import time
import types

from apps.rewards.sandbox.guest import (
    MAX_ERROR_LENGTH,
    REQUEST,
    describe_error,
    discard_output,
    new_module,
)
from apps.rewards.sandbox.guest_calls import find_function, load_module
from apps.rewards.sandbox.prelude import prelude_names
from apps.rewards.sandbox.values import KIND, decode, encode, refuse_type

TESTS = "tests"  # the module of the tests
MAX_PARTS = 100_000  # of an object that the tests iterate over


def run_answer(has_prelude):
    """Read requests of the tests from standard input, one a line; write a reply to each."""
    requests = os.fdopen(os.dup(0), "r")
    replies = os.fdopen(os.dup(1), "w")
    with open(REQUEST, encoding="utf-8") as file:
        code = file.read()
    discard_output(0, 1, 2)
    server = AnswerServer(code, has_prelude)
    for line in requests:
        replies.write(json.dumps(server.answer(json.loads(line))) + "\n")
        replies.flush()
    os._exit(0)


class AnswerServer:
    """Server of requests to the answer's code. Keeps the objects that the tests refer to."""

    def __init__(self, code, has_prelude):
        self.objects = []
        self.load_error = None
        try:
            self.names = vars(load_module(code, has_prelude))
        except BaseException as error:
            self.load_error = describe_error(error)

    def answer(self, request):
        """Return the response to a request: a value, or an error with its type and message."""
        if self.load_error is not None:
            return {"broken": self.load_error}
        try:
            arguments = decode(request["args"], self._referred)
            before = json.dumps(request["args"])
            value = getattr(self, request["do"])(
                self._target(request), *arguments, **self._keyword_arguments(request)
            )
            response = {"value": encode(value, self._keep_object)}
            after = encode(arguments, self._keep_object)
            return response if json.dumps(after) == before else {**response, "args": after}
        except BaseException as error:
            return {"error": type(error).__name__, "message": describe_error(error)}

    def _target(self, request):
        if "ref" in request:
            return self.objects[request["ref"]]
        if request["name"] not in self.names and "Solution" not in self.names:
            raise NameError(f"name {request['name']!r} is not defined")
        return find_function(self.names, request["name"])

    def _keyword_arguments(self, request):
        return decode(request.get("kwargs", {}), self._referred)

    def _referred(self, where):
        """Return an object that was kept, or a copy of one of a class of the tests: Pair(5, 24).

        The copy is of the answer's class of that name, or else has the attributes alone.
        """
        if not isinstance(where, list):
            return self.objects[where]
        name, attributes = where
        own_class = self.names.get(name)
        is_class = isinstance(own_class, type) and own_class.__module__ != "builtins"
        copy = object.__new__(own_class) if is_class else types.SimpleNamespace()
        vars(copy).update(decode(attributes, self._referred))
        return copy

    def _keep_object(self, value):
        self.objects.append(value)
        return {KIND: "ref", "v": len(self.objects) - 1}

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
        return list(itertools.islice(target, MAX_PARTS))

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
    with open(REQUEST, encoding="utf-8") as file:
        task = json.loads(file.read())
    channel = Channel(os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w"))
    verdicts = os.fdopen(os.dup(2), "w")
    discard_output(0, 1, 2)
    for check in task["checks"]:
        began = time.monotonic()
        verdict, why = channel.run_check(task, check, has_prelude)
        verdicts.write(json.dumps([verdict, round(time.monotonic() - began, 3), why]) + "\n")
        verdicts.flush()
        if verdict != "passed" and not task["all"]:
            break
    os._exit(0)


class Broken(BaseException):
    """Raised when the code does not load, or its guest has ended; tests cannot catch it."""


class Remote:
    """Proxy of a function, class or object of the answer, which stays in its guest."""

    def __init__(self, channel, where):
        vars(self).update(_channel=channel, _where=where)

    def __call__(self, *args, **kwargs):
        return self._channel.send_request("call", self._where, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._channel.send_request("attribute", self._where, (name,))

    def __setattr__(self, name, value):
        self._channel.send_request("set_attribute", self._where, (name, value))

    def __getitem__(self, key):
        return self._channel.send_request("item", self._where, (key,))

    def __iter__(self):
        return iter(self._channel.send_request("parts", self._where, ()))

    def __bool__(self):
        return bool(self._channel.send_request("truth", self._where, ()))

    def __len__(self):
        return self._channel.send_request("length", self._where, ())

    def __str__(self):
        return str(self._channel.send_request("text", self._where, ()))

    def __eq__(self, other):  # never the object's own, which may call everything equal
        return isinstance(other, Remote) and self._where == other._where and "ref" in self._where

    def __hash__(self):
        return hash(tuple(sorted(self._where.items())))


class Names(dict):
    """Namespace of the tests: built-in functions, the prelude, and the answer's names.

    The answer's never come first: a function of its own called `abs` or `set` must not judge it.
    """

    def __init__(self, channel, has_prelude):
        super().__init__({**prelude_names(), **vars(builtins)} if has_prelude else vars(builtins))
        self._channel = channel

    def __missing__(self, name):
        if name.startswith("__"):
            raise KeyError(name)
        return Remote(self._channel, {"name": name})


class Channel:
    """Channel from the tests to the answer: requests go out, values come back, as JSON."""

    def __init__(self, replies, requests):
        self.replies = replies
        self.requests = requests
        self.error = None  # the last one that the answer raised, and its message
        self.request_count = 0

    def run_check(self, task, check, has_prelude):
        self.error = None
        self.request_count = 0
        try:
            self._run(task, check, has_prelude)
        except Broken as broken:
            return "broken", str(broken)
        except BaseException as error:
            if self.error is not None and error is self.error[0]:
                return "error", self.error[1]
            if isinstance(error, AssertionError):
                return "wrong", ""
            is_of_tests = isinstance(error, ImportError | SyntaxError)
            return (
                "unusable" if is_of_tests else "error"
            ), f"the test ended with {describe_error(error)}"
        return (
            ("passed", "")
            if self.request_count
            else ("unusable", "the test never calls the submitted code")
        )

    def _run(self, task, check, has_prelude):
        """Run one check in a module of its own, then what in it is a test by its name or class."""
        names = vars(new_module(TESTS, False))
        names["__builtins__"] = Names(self, has_prelude)
        sys.modules["solution"] = SolutionModule(self)
        exec(compile(task["setup"], "setup", "exec"), names)  # noqa: S102
        before = set(names)
        if task["function"]:
            names[task["function"]] = Remote(self, {"name": task["function"]})
        exec(compile(check, "check", "exec"), names)  # noqa: S102
        for name in [name for name in names if name.startswith("test_") and name not in before]:
            if isinstance(names[name], types.FunctionType):
                names[name]()
        if "unittest" in sys.modules:
            run_test_cases([names[name] for name in names if name not in before])

    def send_request(self, do, where, args, kwargs=None):
        """Send a request to the answer. Return its value, or raise its error."""
        self.request_count += 1
        arguments = encode(args, encode_reference)["v"]
        request = {"do": do, **where, "args": arguments}
        if kwargs:
            request["kwargs"] = encode(kwargs, encode_reference)
        try:
            self.requests.write(json.dumps(request) + "\n")
            self.requests.flush()
            line = self.replies.readline()
        except OSError:
            line = ""
        try:
            response = json.loads(line) if line else {"broken": "its process ended"}
        except ValueError:
            response = {"broken": "the result cannot be read"}
        return self._value(response, args)

    def _value(self, response, args):
        if not isinstance(response, dict) or "broken" in response:
            raise Broken(
                str(response["broken"]) if isinstance(response, dict) else "it gave no value"
            )
        if "error" in response:
            raised = getattr(builtins, str(response["error"]), RuntimeError)
            is_error = isinstance(raised, type) and issubclass(raised, Exception)
            error = (raised if is_error else RuntimeError)(str(response.get("message")))
            self.error = (error, str(response.get("message"))[:MAX_ERROR_LENGTH])
            raise error
        for argument, after in zip(args, self._decoded(response.get("args", [])), strict=False):
            update_argument(argument, after)
        return self._decoded(response.get("value"))

    def _decoded(self, document):
        try:
            return decode(document, lambda place: Remote(self, {"ref": int(place)}))
        except (ValueError, TypeError, RecursionError):
            raise Broken("the result cannot be read") from None


def run_test_cases(objects):
    """Run the unittest classes among these objects. Raises the error of the first that fails."""
    unittest = sys.modules["unittest"]
    for case in objects:
        if (
            isinstance(case, type)
            and issubclass(case, unittest.TestCase)
            and case is not unittest.TestCase
        ):
            unittest.defaultTestLoader.loadTestsFromTestCase(case).debug()


class SolutionModule(types.ModuleType):
    """Module `solution`, from which tests may import the answer's functions."""

    def __init__(self, channel):
        super().__init__("solution")
        self._channel = channel

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Remote(self._channel, {"name": name})


def encode_reference(value):
    if isinstance(value, Remote) and "ref" in value._where:
        return {KIND: "ref", "v": value._where["ref"]}
    if isinstance(value, Remote):
        return encode_reference(value._channel.send_request("get", value._where, ()))
    if type(value).__module__ == TESTS and hasattr(value, "__dict__"):
        return {KIND: "ref", "v": [type(value).__name__, encode(vars(value), encode_reference)]}
    return (
        encode(list(value))
        if isinstance(value, range | types.GeneratorType)
        else refuse_type(value)
    )


def update_argument(argument, after):
    """Apply the changes that the call made to an argument."""
    if isinstance(argument, list) and isinstance(after, list):
        argument[:] = after
    elif isinstance(argument, dict | set) and type(after) is type(argument):
        argument.clear()
        argument.update(after)
