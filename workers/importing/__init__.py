"""Sent files become tasksets, in a process of its own: a large one takes minutes, and a hostile one takes nothing else with it."""
