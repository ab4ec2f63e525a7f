"""What a run did, as files: its figures (CSV, Parquet; long or wide), its events and its project's acts (JSON lines).

`reading` gives rows, some thousand at a time by key, so that nothing grows with the run; `writing` makes bytes of them.
"""
