"""OpenTelemetry traces of groups, made from rows afterwards, so that no worker needs tracing code.

`spans` makes the spans, `sending` sends them to a collector. Ids come from the rows' ids: making a
trace again gives the same trace.
"""
