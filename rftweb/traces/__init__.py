"""A group's way through the stations as an OpenTelemetry trace, made from rows after the fact: nothing is added to any worker.

`spans` tells it, `sending` hands it to a collector. Ids come from the rows' ids: whoever tells it again tells the same trace.
"""
