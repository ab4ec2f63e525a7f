"""The demo: its policies, its rows, and following one run to its end."""
