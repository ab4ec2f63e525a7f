"""Algorithm of a run: typed options for each part, and a table of defaults by name."""
