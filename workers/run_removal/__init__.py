"""Deletion of runs and projects: their files and their rows, in small transactions."""
