"""Rules that choose the task of a draw: pure functions, one a file, from numbers to indexes.

They are seeded by the run's seed and the draw's number.
"""
