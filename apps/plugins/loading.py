"""Import of plugins, whose code may raise anything, print, or never end.

Each is imported in a thread of its own with a deadline. A thread that has not ended by then is told
to stop, and is no longer waited for: the plugin alone is refused.
"""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

from apps.plugins.kinds import Refused

LOAD_S = 30.0
MAX_REASON_LENGTH = 500


class LoadingLock:
    """A reentrant lock of a thread and of those that load a plugin for it.

    A plugin may import the module of another kind, which registers itself, or look a part up.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loaders: set[int] = set()
        self._entered = threading.local()

    def __enter__(self) -> None:
        is_loader = threading.get_ident() in self._loaders
        if not is_loader:
            self._lock.acquire()
        self._ways().append(is_loader)

    def __exit__(self, *_: object) -> None:
        was_loader = self._ways().pop()
        if not was_loader:
            self._lock.release()

    def _ways(self) -> list[bool]:
        """Return for each entry of this thread whether it entered as a loader."""
        ways: list[bool] = self._entered.__dict__.setdefault("ways", [])
        return ways

    def load(self, call: Callable[[], Any]) -> Any:
        """Return what `call` returns; the caller has entered the lock.

        Raises Refused with the reason in words for whatever it raises, and after LOAD_S.
        """
        outcome: dict[str, Any] = {}

        def load() -> None:
            self._loaders.add(threading.get_ident())
            try:
                outcome["result"] = call()
            except Refused as refused:
                outcome["refused"] = str(refused)
            except BaseException as error:  # others' code, and no signal comes to this thread
                outcome["refused"] = describe_error(error)
            finally:
                self._loaders.discard(threading.get_ident())

        thread = threading.Thread(target=load, name="plugin-loader", daemon=True)
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is no output of a command
            thread.start()
            thread.join(LOAD_S)
        if thread.is_alive():
            self._give_up(thread)
            raise Refused(f"its import has not ended after {LOAD_S:g} s")
        if "refused" in outcome:
            raise Refused(outcome["refused"])
        return outcome["result"]

    def _give_up(self, thread: threading.Thread) -> None:
        """Stop a thread at its next line of Python, unless it waits in a call of the system."""
        assert thread.ident is not None  # it has started
        self._loaders.discard(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
        )


def describe_error(error: BaseException) -> str:
    """Return type and text of an error, also of one whose text cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # others' code
        return type(error).__name__


def printable(text: str) -> str:
    """Return the text as it can be stored, logged and shown, cut to MAX_REASON_LENGTH."""
    cut = text if len(text) <= MAX_REASON_LENGTH else f"{text[: MAX_REASON_LENGTH - 1]}…"
    return cut.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
