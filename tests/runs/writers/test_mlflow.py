"""MLflow's own client finds the written metrics; without the package (scripts/setup --with mlflow)
these tests are skipped.
"""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.runs.writers.mlflow import OURS

tracking = pytest.importorskip(
    "mlflow.tracking", reason="not installed: scripts/setup --with mlflow"
)


@pytest.fixture
def uri(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a file store, without a server
    return (tmp_path / "store").as_uri()


def test_mlflow_client_finds_each_step_once_after_repeated_writes(measured, uri):
    run = measured(*range(1, 400))  # more metrics than fit in one request
    for steps in ((), (400,), ()):
        measured(*steps)
        call_command(
            "metrics", "write", run.slug, "--target", "mlflow", "--uri", uri, stdout=StringIO()
        )
    client = tracking.MlflowClient(uri)
    [found] = client.search_runs([client.get_experiment_by_name("lab").experiment_id])
    assert (found.info.run_name, found.data.tags[OURS]) == (run.slug, str(run.pk))
    assert found.data.params["algorithm.name"] == run.config["algorithm"]["name"]
    history = client.get_metric_history(found.info.run_id, "kl")
    assert [(m.step, m.value) for m in sorted(history, key=lambda m: m.step)] == [
        (n, n / 100) for n in range(1, 401)
    ]
    assert found.info.status == "RUNNING"


def test_ended_run_is_marked_finished_in_mlflow(measured, uri):
    run = measured(1)
    run.stop()
    call_command(
        "metrics",
        "write",
        run.slug,
        "--target",
        "mlflow",
        "--uri",
        uri,
        "--follow",
        stdout=StringIO(),
    )
    client = tracking.MlflowClient(uri)
    [found] = client.search_runs([client.get_experiment_by_name("lab").experiment_id])
    assert found.info.status == "FINISHED"


def test_unreachable_server_is_reported(measured, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(CommandError, match=r"^--uri"):
        call_command(
            "metrics",
            "write",
            measured(1).slug,
            "--target",
            "mlflow",
            "--uri",
            "http://127.0.0.1:1",
            stdout=StringIO(),
        )
