"""Limits of the test bench; pages and workers reject larger input."""

KIB = 1024
REPLY_BYTES = 64 * KIB
MAX_REPLIES = 20
TEXT_BYTES = 64 * KIB  # of a prompt, a reference, or an object that is typed
TASK_BYTES = 4 * KIB * KIB  # of a task that is tried; tests of code are large
CASE_TASK_BYTES = 256 * KIB  # of a task that is kept with a case
MAX_CASES = 1_000  # per project
MAX_OPEN_TRIALS = 10  # per project
TRIALS_KEPT = 200  # per project, the newest
