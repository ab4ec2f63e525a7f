"""An algorithm of a run: typed options for each of its parts, and the table that gives their defaults by name."""
