"""Judging programs by hidden tests: extraction of the code, tests, comparison of outputs."""
