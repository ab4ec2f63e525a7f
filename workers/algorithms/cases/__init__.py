"""Compute published numbers of the field's algorithms with our functions.

Usage: `python -m workers.algorithms.cases FILE.json`.
"""
