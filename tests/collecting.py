"""A pytest plugin that makes collection cheap: each test process collects all tests.

Without it four processes spend over two minutes of processor time on it in a fresh clone.
"""

import gc
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests import durations

TESTS = Path(__file__).parent
# Python collects young objects after every 700 new ones, and Hypothesis measures each collection
# with a callback: a twelfth of the tests' processor time.
YOUNG_OBJECTS = 20_000
QUICK = "not slow and not long_file"  # as in the Makefile


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session):
    """Collect no garbage meanwhile, and exclude the loaded objects from it, as they stay.

    Every full collection of garbage would look through hundreds of thousands of objects of torch,
    transformers and Django. It takes a third of a second, and accelerate asks for one whenever a
    trainer starts. Afterwards collect young objects seldom.
    """
    gc.disable()
    _rewrite_our_share(session.config)
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out long files of a quick run, which would deselect all of their tests."""
    if config.option.markexpr != QUICK or not collection_path.is_relative_to(config.rootpath):
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    return True if file in durations.long_files() else None


def _rewrite_our_share(config: pytest.Config) -> None:
    """Write the byte code of this process's share of the test files, with pytest's assertions.

    All processes start with the same file: in a fresh clone each would compile every file.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    state = config.stash[rewrite.assertstate_key]
    for file in sorted(TESTS.rglob("test_*.py"))[number :: worker["workercount"]]:
        folder = rewrite.get_cache_dir(file)
        pyc = folder / f"{file.stem}{rewrite.PYC_TAIL}"
        if not pyc.exists() and rewrite.try_makedirs(folder):
            source_hash, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, code, source_hash, pyc)
