"""The demo: its policies, its rows, and how one run of it is followed to its end."""
