"""Send spans to a collector by OTLP over HTTP (protobuf). The packages are optional."""

from collections.abc import Iterable
from datetime import datetime

from apps.runs.writers.contract import NoTarget, package
from rftweb.traces.spans import Span

SCOPE = "rftweb"


class Collector:
    """A collector with its base address `endpoint`.

    OpenTelemetry's other variables for headers, certificates and timeouts apply too.
    """

    def __init__(self, endpoint: str) -> None:
        self.api = package("opentelemetry.trace", "opentelemetry")
        self.sdk = package("opentelemetry.sdk.trace", "opentelemetry")
        self.scope = package(
            "opentelemetry.sdk.util.instrumentation", "opentelemetry"
        ).InstrumentationScope(SCOPE)
        exporting = package(
            "opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry"
        )
        self.taken = package(
            "opentelemetry.sdk.trace.export", "opentelemetry"
        ).SpanExportResult.SUCCESS
        self.resource = package("opentelemetry.sdk.resources", "opentelemetry").Resource.create(
            {"service.name": SCOPE}
        )
        self.endpoint = f"{endpoint.rstrip('/')}/v1/traces"
        self.exporter = exporting.OTLPSpanExporter(endpoint=self.endpoint)

    def send(self, spans: Iterable[Span]) -> int:
        """Send the spans and return how many. Raise NoTarget if the collector refused them."""
        sdk_spans = [self._sdk_span(span) for span in spans]
        if sdk_spans and self.exporter.export(sdk_spans) is not self.taken:
            raise NoTarget(
                f"the collector at {self.endpoint} took nothing; what was not sent comes when you"
                " say it again"
            )
        return len(sdk_spans)

    def _sdk_span(self, span: Span):
        """Return the span as the SDK represents an ended one."""
        ours = self._context(span.trace_id, span.span_id)
        parent = self._context(span.trace_id, span.parent_id) if span.parent_id else None
        code = self.api.StatusCode.ERROR if span.failure else self.api.StatusCode.UNSET
        status = self.api.Status(code, span.failure or None)
        return self.sdk.ReadableSpan(
            span.name,
            ours,
            parent,
            resource=self.resource,
            attributes={k: v for k, v in span.attributes.items() if v is not None},
            status=status,
            start_time=_ns(span.start),
            end_time=_ns(span.end),
            instrumentation_scope=self.scope,
        )

    def _context(self, trace: int, span: int):
        return self.api.SpanContext(
            trace,
            span,
            is_remote=False,
            trace_flags=self.api.TraceFlags(self.api.TraceFlags.SAMPLED),
        )


def _ns(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
