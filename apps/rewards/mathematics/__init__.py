"""Read and compare mathematical answers.

`shapes` says what an answer is, `same` whether two mean the same, `expected` whether it is an
answer at all. Nothing here evaluates text as a program, and what would be large is refused before
it is computed.
"""
