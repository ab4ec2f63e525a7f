"""Where code that a policy wrote is run: apart from network, files, other processes and the answers that are expected.

`run(code, calls)` puts the code and the calls into a guest and brings back what each call gave; whoever asked compares. There is
one kind of guest, bubblewrap's (bubblewrap.py); without it nothing is run at all.
"""

from apps.rewards.sandbox.bubblewrap import Call, NoSandbox, Outcome, require, run

__all__ = ["Call", "NoSandbox", "Outcome", "require", "run"]
