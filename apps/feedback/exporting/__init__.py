"""What people said of a run, as data sets: votes, groups, pairs, demonstrations and turn labels, as JSON lines or Parquet.

`rows` reads them a few hundred at a time by key, so that nothing grows with the run; `schemas` names the columns, which are
those that TRL and the data sets of the Hub use; `writing` makes files of them.
"""
