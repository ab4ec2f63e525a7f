"""The files on a run's export page, and the same files over REST."""

import csv
import io

import pyarrow.parquet as pq
from django.urls import reverse

from apps.runs.models import Metric
from tests.dashboard.evaluating import evaluated, publish
from tests.dashboard.test_tracing import address


def content(answer) -> bytes:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content)


def test_owner_downloads_metrics_as_a_file(client, seeded):
    client.force_login(seeded.alice)
    answer = client.get(address("run-export-metrics", "long", "csv"))
    assert answer["Content-Disposition"] == 'attachment; filename="lab-tone-7-metrics-long.csv"'
    assert content(answer).count(b"\n") == 1 + Metric.objects.count()
    assert client.get(address("run-export-metrics", "tall", "csv")).status_code == 404
    assert client.get(address("run-export-metrics", "wide", "xml")).status_code == 404


def test_owner_downloads_evaluation_metrics_as_a_file(client, run, alice, finish, monkeypatch):
    monkeypatch.setattr("apps.evaluation.exporting.AT_ONCE", 1)
    publish(run, 1)
    made = [evaluated(run, number, finish, right) for number, right in ((1, 3), (0, 1))]
    client.force_login(alice)

    def file(form: str):
        return client.get(reverse("run-export-evaluations", args=["lab", "run-0", form]))

    rows = list(csv.DictReader(io.StringIO(content(file("csv")).decode())))
    chosen = [one for one in rows if (one["measure"], one["k"]) == ("pass", "2")]
    told = [(one["weight_version"], one["evaluation"], float(one["value"])) for one in chosen]
    assert told == [("1", made[0].slug, 0.75), ("0", made[1].slug, 0.25)]
    kept = sum(len(of_k) for one in made for of_k in one.result.metrics["metrics"].values())
    assert len(rows) == kept and {one["question_set"] for one in rows} == {made[0].evaluation_set}
    values = pq.read_table(io.BytesIO(content(file("parquet"))))["value"].to_pylist()
    assert values == [float(one["value"]) for one in rows]
    assert file("xml").status_code == 404


def test_metrics_and_events_can_be_downloaded_over_rest(client, seeded):
    client.force_login(seeded.alice)
    base = f"/api/v1/runs/{seeded.run.pk}/exports"
    wide = (
        content(
            client.get(f"{base}/metrics/", {"shape": "wide", "names": "kl,entropy", "after": 1})
        )
        .decode()
        .splitlines()
    )
    assert wide[0] == "step,weight_version,at,entropy,kl" and [
        line.split(",")[0] for line in wide[1:]
    ] == ["2", "3"]
    assert content(client.get(f"{base}/events/")) == content(
        client.get(address("run-export-events"))
    )
    assert content(client.get(f"{base}/audit/")) == content(client.get(address("run-export-audit")))
    assert client.get(f"{base}/metrics/", {"shape": "tall"}).status_code == 422


def test_events_are_paged_by_cursor_and_hide_rewards_from_blind_raters(client, seeded):
    url = f"/api/v1/runs/{seeded.run.pk}/events/"
    client.force_login(seeded.alice)
    first = client.get(url, {"limit": 2}).json()
    rest = client.get(url, {"after": first["items"][-1]["sequence"], "limit": 200}).json()
    assert (len(first["items"]), first["more"], rest["more"]) == (2, True, False)
    everything = [*first["items"], *rest["items"]]
    assert [one["sequence"] for one in everything] == list(range(1, len(everything) + 1))
    committed = next(one for one in everything if one["kind"] == "step_committed")
    assert set(committed["payload"]) == {"step", "reward"}
    client.force_login(seeded.bob)  # he judges this run blind
    heard = {
        one["sequence"]: one["payload"] for one in client.get(url, {"limit": 200}).json()["items"]
    }
    assert heard[committed["sequence"]] == {"step": committed["payload"]["step"]}


def test_export_filter_is_filled_in_from_the_query(client, seeded):
    client.force_login(seeded.alice)
    address = reverse("run-exports", args=["lab", seeded.run.slug])
    html = client.get(
        address, {"form": "stars", "since": "2026-03-01", "pseudonyms": "on"}
    ).content.decode()
    assert (
        "<option selected>stars</option>" in html
        and 'value="2026-03-01"' in html
        and 'value="on" checked' in html
    )
    html = client.get(address, {"form": "nonsense", "since": "never"}).content.decode()
    assert "<option selected>" not in html and 'value="never"' not in html


def test_export_page_offers_files_before_there_are_metrics(client, run, alice):
    client.force_login(alice)
    html = client.get(reverse("run-exports", args=["lab", run.slug])).content.decode()
    assert "no metrics yet" in html and "metrics-wide.parquet" in html
