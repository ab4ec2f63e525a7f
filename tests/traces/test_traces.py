"""A run's traces, received by a real OTLP receiver over HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.buffer.models import StepItem
from apps.rollouts.models import Group
from rftweb.traces.spans import load_span_rows

service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    reason="not installed: scripts/setup --with opentelemetry",
)
pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http",
    reason="not installed: scripts/setup --with opentelemetry",
)


@pytest.fixture
def collector(settings):
    """Run a receiver; `spans` are those it got, in order; with `refuses` it rejects everything."""
    received = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert (self.path, self.headers["Content-Type"]) == (
                "/v1/traces",
                "application/x-protobuf",
            )
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not server.refuses:
                asked = service.ExportTraceServiceRequest.FromString(body)
                received.extend(
                    span
                    for of in asked.resource_spans
                    for scope in of.scope_spans
                    for span in scope.spans
                )
            self.send_response(400 if server.refuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.refuses = False
    server.spans = received
    settings.TRACES_ENDPOINT = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def write(run, tmp_path, *options: str) -> str:
    out = StringIO()
    call_command(
        "traces", "write", run.slug, "--state", str(tmp_path / "state.json"), *options, stdout=out
    )
    return out.getvalue()


def told(span) -> dict:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_trace_of_a_group_reaches_from_its_draw_to_the_engine_loading_its_weights(
    seeded, collector, tmp_path
):
    write(seeded.run, tmp_path)
    item = (
        StepItem.objects.filter(step__run=seeded.run, step__number=1)
        .select_related("experience__group", "step")
        .first()
    )
    group = item.experience.group
    root = next(
        span
        for span in collector.spans
        if span.name == "group" and told(span)["rftweb.group"] == group.pk
    )
    trace = [span for span in collector.spans if span.trace_id == root.trace_id]
    names = [span.name for span in trace]
    assert (
        names.count("rollout") == group.rollouts.count()
        and names.count("score tone") == group.rollouts.count()
    )
    assert {"sample", "wait for people", "refine", "train", "publish"} <= set(
        names
    ) and names.count("acknowledge") == 2
    by_id = {span.span_id: span for span in trace}
    assert len(by_id) == len(trace) and all(
        span.parent_span_id in by_id for span in trace if span is not root
    )
    train = next(span for span in trace if span.name == "train")
    assert told(train)["rftweb.step"] == 1
    assert train.start_time_unix_nano // 1000 == int(item.step.planned_at.timestamp() * 1e6)
    assert (
        by_id[next(span for span in trace if span.name == "acknowledge").parent_span_id].name
        == "publish"
    )


def test_trace_of_a_dropped_group_contains_the_reason(seeded, collector, tmp_path):
    seeded.run.stop()  # groups after an open group are sent when the run is over
    Group.objects.filter(run=seeded.run, closed_at=None).delete()
    write(seeded.run, tmp_path)
    dropped = Group.objects.filter(run=seeded.run, state="dropped").first()
    root = next(
        span
        for span in collector.spans
        if span.name == "group" and told(span)["rftweb.group"] == dropped.pk
    )
    assert root.status.message == dropped.reason != "" and root.status.code == 2


def test_each_group_is_sent_once_and_refused_groups_are_sent_again(seeded, collector, tmp_path):
    collector.refuses = True
    with pytest.raises(CommandError, match="took nothing"):
        write(seeded.run, tmp_path)
    collector.refuses = False
    assert "0 groups" not in write(seeded.run, tmp_path)
    count = len(collector.spans)
    assert "0 groups" in write(seeded.run, tmp_path) and len(collector.spans) == count > 0


def test_groups_sent_again_have_the_same_trace_and_span_ids(seeded, collector, tmp_path):
    write(seeded.run, tmp_path)
    first = {(span.trace_id, span.span_id) for span in collector.spans}
    (tmp_path / "state.json").unlink()
    write(seeded.run, tmp_path)
    assert {(span.trace_id, span.span_id) for span in collector.spans} == first and len(
        collector.spans
    ) == 2 * len(first)


def test_no_group_is_sent_after_the_first_open_group(seeded, collector, tmp_path):
    write(seeded.run, tmp_path)
    sent = {told(span)["rftweb.group"] for span in collector.spans if span.name == "group"}
    first_open = Group.objects.filter(run=seeded.run, closed_at=None).earliest("pk").pk
    assert sent and max(sent) < first_open
    assert json.loads((tmp_path / "state.json").read_text()) == {
        "run": seeded.run.pk,
        "group": max(sent),
    }


def test_traces_contain_no_reply_texts_and_no_user_names(seeded, collector, tmp_path):
    write(seeded.run, tmp_path)
    everything = "".join(map(str, collector.spans))
    assert (
        seeded.rollout.text not in everything
        and "alice" not in everything
        and "bob" not in everything
    )


def test_number_of_queries_does_not_grow_with_the_number_of_groups(seeded):
    groups = list(Group.objects.filter(run=seeded.run, state="admitted").order_by("pk"))
    counts = []
    for some in (groups[:1], groups):
        with CaptureQueriesContext(connection) as queries:
            load_span_rows(seeded.run, some)
        counts.append(len(queries))
    assert counts[0] == counts[1] and len(groups) > 3


def test_error_without_endpoint_names_the_variable_to_set(seeded, settings, tmp_path):
    settings.TRACES_ENDPOINT = ""
    with pytest.raises(CommandError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        write(seeded.run, tmp_path)
