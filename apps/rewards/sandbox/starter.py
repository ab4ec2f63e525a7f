"""Starts a program of Python's inside the sandbox, as the interpreter would if it had its site module: exit and quit are there."""

import _sitebuiltins
import builtins
import sys

for name in ("exit", "quit"):
    setattr(builtins, name, _sitebuiltins.Quitter(name, "the end of the file"))
sys.argv = sys.argv[1:]
with open(sys.argv[0], encoding="utf-8", errors="replace") as file:
    source = file.read()
exec(compile(source, "program.py", "exec"), {"__name__": "__main__", "__builtins__": builtins})  # noqa: S102  (what a sandbox is for)
