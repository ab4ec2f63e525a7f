"""Calls of plugins' functions: whatever one raises is an ordinary error with a text.

`sys.exit` in a plugin would end the process that calls it, past every `except Exception`; and an
error whose text cannot be made would fail again where its reason is written down.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from apps.plugins.loading import describe_error

_END = object()


class PluginCallFailed(RuntimeError):
    """Raised in place of what a plugin raised, which callers cannot handle."""


@contextlib.contextmanager
def plugin_errors() -> Iterator[None]:
    """Raise PluginCallFailed for an exit, and for an error that has no text."""
    try:
        yield
    except KeyboardInterrupt:  # from the person at the terminal
        raise
    except Exception as error:
        try:
            str(error)
        except Exception:  # others' code
            raise PluginCallFailed(f"raised {describe_error(error)}") from None
        raise
    except BaseException as error:
        raise PluginCallFailed(f"raised {describe_error(error)}") from error


def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a plugin, with `plugin_errors` around each call."""

    @functools.wraps(call)
    def call_guarded(*arguments: Any) -> Any:
        with plugin_errors():
            return call(*arguments)

    return call_guarded


def guarded_rows(call: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """Return a function of a plugin that yields, with `plugin_errors` around each of its steps."""

    @functools.wraps(call)
    def rows_guarded(*arguments: Any) -> Iterator[Any]:
        with plugin_errors():
            rows = iter(call(*arguments))
        while True:
            with plugin_errors():
                row = next(rows, _END)
            if row is _END:
                return
            yield row

    return rows_guarded
