"""Which tests a single process runs in sequence: those of a file, or of a folder in GROUPS.

A stack of twelve processes loads the machine even when nobody uses it: two at once only slow each
other down. Most files on stacks share one installation, which is then started once. Files in the
browser share Chromium and a web process, and files on engines vLLM, which takes each process ten
seconds of processor time to import.
"""

from xdist.scheduler import LoadFileScheduling

from tests import profiles

GROUPS = ("tests/stack", "tests/browser", "tests/workers/engines")


def file_of(nodeid: str) -> str:
    return nodeid.split("::")[0]


def group_of(nodeid: str) -> str:
    """Return the test's group: its folder if that is in GROUPS, otherwise its file."""
    folders = (folder for folder in GROUPS if nodeid.startswith(f"{folder}/"))
    return next(folders, file_of(nodeid))


class GroupScheduling(LoadFileScheduling):
    """A scheduler that gives each test process a whole group at a time.

    `make test-long` has so many tests on stacks that one process would still be busy with them long
    after the others have finished, so it assigns single files.
    """

    def _split_scope(self, nodeid: str) -> str:
        return file_of(nodeid) if profiles.IS_LONG else group_of(nodeid)
