"""Deletion of runs: their files and their rows, in small transactions."""
