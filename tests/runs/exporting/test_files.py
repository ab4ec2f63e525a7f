"""Metrics, events and audit entries as complete, ordered files, for any size of query."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from apps.runs.exporting import reading, writing
from apps.runs.exporting.reading import RunMetrics
from apps.runs.exporting.writing import audit_file, events_file, metrics_file
from apps.runs.models import Metric, TrainStep


@pytest.fixture
def measured(run):
    """Record five steps with two metrics, the second from step 3 on, and a new version every two
    steps.
    """
    for step in range(1, 6):
        TrainStep.objects.create(
            run=run, number=step, state="committed", version=step // 2, fence=1
        )
        Metric.record(
            run, step, {"kl": step / 3, **({"reward_mean": -step / 7} if step >= 3 else {})}
        )
    return run


@pytest.fixture(autouse=True, params=[10_000, 2])
def batches(request, monkeypatch):
    """Read in one query, or in many."""
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", request.param)
    monkeypatch.setattr(writing, "ROW_GROUP", request.param)


def rows_of(run, shape: str, **asked) -> list[dict]:
    text = b"".join(metrics_file(RunMetrics(run, **asked), shape, "csv")).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_long_file_has_a_row_for_each_metric_with_version_and_time(measured):
    rows = rows_of(measured, "long")
    assert [(row["name"], int(row["step"])) for row in rows] == [
        *(("kl", step) for step in range(1, 6)),
        *(("reward_mean", step) for step in range(3, 6)),
    ]
    stored = {(m.name, m.step): m for m in Metric.objects.filter(run=measured)}
    for row in rows:
        metric = stored[row["name"], int(row["step"])]
        assert float(row["value"]) == metric.value and row["at"] == metric.at.isoformat()
        assert int(row["weight_version"]) == metric.step // 2


def test_wide_file_has_a_row_for_each_step_and_empty_cells_for_missing_values(measured):
    rows = rows_of(measured, "wide")
    assert [(row["step"], row["weight_version"], row["reward_mean"]) for row in rows] == [
        ("1", "0", ""),
        ("2", "1", ""),
        ("3", "1", str(-3 / 7)),
        ("4", "2", str(-4 / 7)),
        ("5", "2", str(-5 / 7)),
    ]
    assert [float(row["kl"]) for row in rows] == [step / 3 for step in range(1, 6)]


@pytest.mark.parametrize("shape", ["long", "wide"])
def test_parquet_file_equals_the_csv_file(measured, shape):
    table = pq.read_table(
        io.BytesIO(b"".join(metrics_file(RunMetrics(measured), shape, "parquet")))
    ).to_pylist()
    said = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in table
    ]
    for row, plain in zip(said, table, strict=True):
        row["at"] = plain["at"].isoformat()
    assert said == rows_of(measured, shape)


def test_steps_and_names_narrow_the_file(measured):
    rows = rows_of(measured, "wide", after=3, only=("reward_mean",))
    assert [list(row) for row in rows] == [["step", "weight_version", "at", "reward_mean"]] * 2
    assert [row["step"] for row in rows] == ["4", "5"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("shape", ["long", "wide"])
def test_run_without_metrics_gives_a_file_with_columns_but_no_rows(run, shape, form):
    content = b"".join(metrics_file(RunMetrics(run), shape, form))
    if form == "csv":
        assert content.decode().count("\n") == 1
    else:
        assert pq.read_table(io.BytesIO(content)).num_rows == 0


def test_file_contains_no_metrics_of_another_run(measured, new_run):
    other = new_run()
    Metric.record(other, 1, {"theirs": 1.0})
    assert RunMetrics(measured).names == ["kl", "reward_mean"]
    assert RunMetrics(other).names == ["theirs"]
    assert {row["name"] for row in rows_of(other, "long")} == {"theirs"}


def test_events_and_audit_entries_are_exported_in_order(run, alice):
    run.pause(alice, "for lunch")
    run.resume(alice)
    lines = [json.loads(line) for line in b"".join(events_file(run)).splitlines()]
    assert [line["payload"]["state"] for line in lines if line["kind"] == "state_changed"] == [
        "running",
        "paused",
        "running",
    ]
    assert [line["sequence"] for line in lines] == sorted(line["sequence"] for line in lines)
    later = [
        json.loads(line) for line in b"".join(events_file(run, lines[0]["sequence"])).splitlines()
    ]
    assert later == lines[1:]
    acts = [json.loads(line) for line in b"".join(audit_file(run)).splitlines()]
    assert [(act["action"], act["name"]) for act in acts][-2:] == [
        ("run paused", "alice"),
        ("run resumed", "alice"),
    ]
    assert acts[-2]["details"] == {"reason": "for lunch"} and acts[-2]["target"] == "run lab/run-0"
