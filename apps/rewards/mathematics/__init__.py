"""Reading and comparing mathematical answers: what was answered (final), what it means (shapes), whether two mean the same (same).

Nothing here evaluates text as a program, and what would be large is refused before it is computed.
"""
