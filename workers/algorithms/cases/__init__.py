"""Published numbers of the field's algorithms, computed by what runs here: `python -m
workers.algorithms.cases FILE.json`.
"""
