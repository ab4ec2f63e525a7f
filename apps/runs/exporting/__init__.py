"""Export of a run as files: metrics (CSV, Parquet; long or wide), events and audit (JSON lines).

`reading` yields rows, some thousand at a time by key, so that memory does not grow with the run;
`writing` makes bytes of them.
"""
