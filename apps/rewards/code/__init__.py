"""Judging programs by hidden tests: where the code stands in an answer, what tests are, when two outputs are the same."""
