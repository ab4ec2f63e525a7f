"""Filters of the data-juicer package, run by name on whole texts in a separate process.

- asking.py: look-ups for groups and tasks before operators work, and validation of a pipeline's
  filters.
- process.py: the process: started, asked, and killed when it hangs.
- child.py: the program of that process; it imports nothing of ours.
"""
