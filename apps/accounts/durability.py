"""Let a COMMIT return before the disk has it."""

from django.db import connection


def commit_without_waiting() -> None:
    """Let the COMMIT of this transaction return before its WAL is on disk.

    For work that a machine did and can do again, or a message that its sender repeats until it is
    answered, and that nobody was told of: if the *server* crashes within `wal_writer_delay` (at
    most three times 200 ms), the transaction is lost as a whole, as if its worker had died before
    it. A crash of the worker loses nothing. PostgreSQL writes one log in order, so every later
    COMMIT that waits (a rating, an answer to a caller, a step's commit) also makes this one
    durable: nothing that was acknowledged can rest on work that is lost. Do not use it where ids
    that the transaction created are used outside the database without a check, because a lost
    sequence number may be given out again.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
