"""Every role of `manage.py up` restarts after kill -9, and no process is left at the end.

Each test needs a stack of its own, so only `make test-long` runs them. tests/stack kills roles and
ends its stacks in every run.
"""

import urllib.request
from contextlib import ExitStack

import pytest

from rftweb.embedded import PostgresServer, ValkeyServer
from rftweb.supervisor import Supervisor, leftovers
from rftweb.supervisor.roles import ROLES
from tests.clusters import copy_migrated_cluster
from tests.descent import children
from tests.ports import kept_port
from tests.stack.conftest import PATIENCE_S

pytestmark = [pytest.mark.nightly, pytest.mark.stack, pytest.mark.slow]


@pytest.fixture
def stack(var):
    copy_migrated_cluster(var)
    keeper, port = kept_port()
    stack = Supervisor(var, port=port, quiet=True)
    with keeper, ExitStack() as ending:
        ending.callback(stack.stop)
        stack.start()
        stack.wait_ready(PATIENCE_S)
        yield stack


def survivors(var) -> set[int]:
    marked = leftovers.find_marked_processes(leftovers.marker_prefix(var))
    return marked | PostgresServer(var).processes() | ValkeyServer(var).processes()


def test_every_role_restarts_after_sigkill_and_the_login_page_responds(stack):
    for role in ROLES:
        stack.wait_restarted(role, since=stack.kill(role), stall_s=PATIENCE_S)
    with urllib.request.urlopen(f"{stack.address}/accounts/login/", timeout=60) as answer:
        assert answer.status == 200
    assert stack.stop() == 0
    assert not survivors(stack.var)


def test_no_process_of_the_stack_survives_sigkill_of_the_supervisor(stack, eventually):
    pool_children = children(stack.pid("refiner"))
    assert pool_children
    stack.process.kill()
    stack.process.wait()
    eventually(lambda: not survivors(stack.var), 60)
