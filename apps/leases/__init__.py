"""Leases: who may work on a row, until when, and how late writers are refused.

A worker **claims** rows that nobody holds: it gets a lease, which ends at a time on the database's
clock, and a fence, a number that rises with each claim. It **renews** the lease while it works, and
**releases** the row when it is done. Every write names the fence, so a worker that was suspended
and comes back writes nothing once another one has claimed the row. A lease that nobody renews
**expires**; `apps.leases.expiry` says what happens then, for each kind of row.

    lease.py    the columns, and claim, renew, release, revoke, for any number of rows
    work.py     whole jobs that one worker does at a time: imports, weight orders, the test bench
    expiry.py   what happens when a lease expires
"""
