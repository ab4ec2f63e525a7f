"""Blind arenas: people say which of two answers to one task is better and are not told who wrote them."""
