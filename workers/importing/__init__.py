"""Import of uploaded files as tasksets, in a process of its own.

A large file takes minutes, and a hostile one must not harm other work.
"""
