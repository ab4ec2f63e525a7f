"""Filters of the data-juicer package: asked for whole texts by their names there, at work in a process of its own environment.

asking.py     what they say of groups and of tasks, looked up before operators work, and whether a pipeline's can be asked
process.py    the process: started, asked, and ended where it hangs
child.py      what runs there; it imports nothing of ours
"""
