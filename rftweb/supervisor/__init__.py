"""One command that runs all processes.

`manage.py up` runs a `Watch`; tests, benchmarks and the demo control it through a `Supervisor`.
"""

from rftweb.supervisor.handle import StackFailed, Supervisor

__all__ = ["StackFailed", "Supervisor"]
