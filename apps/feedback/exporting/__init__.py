"""Export a run's human data as JSON lines or Parquet.

The data sets are votes, groups, pairs, demonstrations and turn labels. `rows` reads them a few
hundred at a time by key, so that memory does not grow with the run; `schemas` names the columns,
which are those that TRL and the data sets of the Hub use; `writing` writes them to files.
"""
