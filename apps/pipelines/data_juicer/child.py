"""The program of the filter process, run by the interpreter of .venv-data-juicer.

Imports nothing of ours. It prints its package's version when it is ready. Each request is one line:
`op`, `args`, `texts`, and `seconds` after which the kernel kills the process. Each reply is one
line: `results`, for each text whether the filter keeps it, and its statistics; or `wrong`, the
problem with each argument; or `error`. The package would install missing dependencies and download
models: here the kernel refuses it every socket and every other process.
"""

import ctypes
import inspect
import json
import os
import resource
import signal
import sys
from functools import cache
from importlib.metadata import version

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
PR_SET_NO_NEW_PRIVS = 38
# Arguments of every filter; its other common ones are of data sets, devices and folders.
OF_ALL = {"min_closed_interval": bool, "max_closed_interval": bool, "reversed_range": bool}
MADE_AT_ONCE = 64


class Rules(ctypes.Structure):
    """The C structure struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]


class Wrong(Exception):
    """An error for arguments that the op does not take; its argument holds the problem by name."""


def close_in(rules, memory_bytes) -> None:
    """Set limits that this process cannot lift again.

    Call it before any thread is started: limits hold for later threads.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The limit is on data, not addresses: libraries reserve much more address space than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    kernel = ctypes.CDLL(None, use_errno=True)
    loaded = Rules(len(rules) // 8, rules)
    refused = kernel.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if refused or kernel.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel does not support seccomp filters")


class Filters:
    """The package's ops, created at first use."""

    def __init__(self) -> None:
        # Not at the top of the file: imports there would run before the limits hold.
        from data_juicer.ops import OPERATORS
        from data_juicer.utils.constant import Fields
        from loguru import logger
        from pydantic import TypeAdapter, ValidationError

        logger.disable("data_juicer")  # it logs installations that are blocked here
        self.ops = OPERATORS.modules
        self.stats = Fields.stats
        self.adapter = cache(TypeAdapter)
        self.invalid = ValidationError
        self.made: dict = {}

    def answer(self, request):
        try:
            return {
                "results": self._filter_texts(
                    self._op(request["op"], request["args"]), request["texts"]
                )
            }
        except Wrong as wrong:
            return {"wrong": wrong.args[0]}
        # any error belongs to this request alone
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:300]}

    def _op(self, name, args):
        key = name, json.dumps(args, sort_keys=True)
        if key not in self.made:
            if name not in self.ops:
                raise LookupError(f"this version of data-juicer has no op {name!r}")
            if wrong := self._wrong(name, args):
                raise Wrong(wrong)
            if len(self.made) == MADE_AT_ONCE:
                self.made.clear()
            self.made[key] = self.ops[name](**args)
        return self.made[key]

    def _wrong(self, name, args):
        parameters = list(inspect.signature(self.ops[name].__init__).parameters.values())[1:]
        accepted = {
            parameter.name: parameter.annotation
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        } | OF_ALL
        unknown = {
            arg: f"{name} has no such argument; known: {', '.join(accepted)}"
            for arg in args
            if arg not in accepted
        }
        return unknown | {
            arg: why
            for arg, value in args.items()
            if arg in accepted and (why := self._unfit(accepted[arg], value))
        }

    def _unfit(self, kind, value):
        try:
            self.adapter(kind).validate_python(value, strict=True)
        except self.invalid as invalid:
            return invalid.errors()[0]["msg"]
        return ""

    def _filter_texts(self, op, texts):
        samples = {op.text_key: list(texts), self.stats: [{} for _ in texts]}
        samples = op.compute_stats_batched(samples)
        verdicts = [bool(verdict) for verdict in op.process_batched(samples)]
        stats = [
            {name: _plain(value) for name, value in sample_stats.items()}
            for sample_stats in samples[self.stats]
        ]
        return list(zip(verdicts, stats, strict=True))


def _plain(value):
    """Convert NumPy numbers to Python numbers."""
    return value.item() if hasattr(value, "item") else value


def main(rules: str, memory_bytes: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and decides
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a package's output must not mix with replies

    def tell(answer) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        close_in(bytes.fromhex(rules), int(memory_bytes))
        filters = Filters()
        tell({"version": version("py-data-juicer")})
    except Exception as error:  # the parent is told why this process ended
        tell({"error": f"{type(error).__name__}: {error}"[:300]})
        return
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.alarm(request["seconds"])
        tell(filters.answer(request))
        signal.alarm(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
