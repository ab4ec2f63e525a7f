"""The number of database queries of a page does not grow with the rows behind it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.runs.models import Run
from tests.dashboard.growing import grow_rollouts, grow_runs

MAX_QUERIES = {
    "runs": 18,
    "run": 28,
    "rollouts": 16,
    "live": 16,
    "weights": 8,
    "tasksets": 6,
    "rate": 10,
}


def queries(client, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


@pytest.mark.parametrize("name", ["run", "rollouts", "live", "rate"])
def test_page_queries_do_not_grow_with_rollouts(client, seeded, name):
    client.force_login(seeded.bob)
    address = (
        reverse(name, args=["lab", "tone-7"]) if name in ("run", "rollouts") else reverse(name)
    )
    grow_rollouts(seeded.run, 10)
    few = queries(client, address)
    grow_rollouts(seeded.run, 300)
    assert queries(client, address) <= few <= MAX_QUERIES[name]


@pytest.mark.parametrize("name", ["runs", "live", "weights"])
def test_page_queries_do_not_grow_with_runs(client, seeded, name):
    client.force_login(seeded.bob)
    grow_runs(seeded.run, 10)
    few = queries(client, reverse(name))
    grow_runs(seeded.run, 300)
    assert Run.objects.count() > 300
    assert queries(client, reverse(name)) <= few <= MAX_QUERIES[name]


@pytest.mark.parametrize(
    ("address", "most"),
    [
        ("/runs/now/?run={first}&run={last}", 12),
        ("/compare/?runs=lab/tone-7,lab/run-1", 45),
        ("/runs/new/", 50),
    ],
)
def test_queries_of_a_researchers_pages_do_not_grow_with_runs(client, seeded, address, most):
    client.force_login(seeded.alice)
    grow_runs(seeded.run, 10)
    address = address.format(first=seeded.run.pk, last=seeded.run.pk + 1)
    few = queries(client, address)
    grow_runs(seeded.run, 200)
    assert queries(client, address) <= few <= most
