"""Which tests one process runs, one after another: those of a file, and all tests on stacks.

A stack of twelve processes loads the machine even when nobody uses it: two at once only slow each
other down. Most files on stacks share one installation, which is then started once.
"""

from xdist.scheduler import LoadFileScheduling

from tests import profiles

STACKS = "tests/stack"


def file_of(nodeid: str) -> str:
    return nodeid.split("::")[0]


def group_of(nodeid: str) -> str:
    """Return the files whose tests stand together: the test's own, or those on stacks."""
    return STACKS if nodeid.startswith(f"{STACKS}/") else file_of(nodeid)


class GroupScheduling(LoadFileScheduling):
    """Gives each test process a whole group at a time.

    `make test-long` has so many tests on stacks that one process would still be busy with them long
    after the others have finished: it gives out files.
    """

    def _split_scope(self, nodeid: str) -> str:
        return file_of(nodeid) if profiles.IS_LONG else group_of(nodeid)
