"""Blind arenas: people choose the better of two answers to one task without knowing the authors."""
