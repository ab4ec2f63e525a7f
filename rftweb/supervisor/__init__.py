"""One command for all processes. `manage.py up` is a `Watch`; tests, benches and the demo hold it by a `Supervisor`."""

from rftweb.supervisor.handle import StackFailed, Supervisor

__all__ = ["StackFailed", "Supervisor"]
