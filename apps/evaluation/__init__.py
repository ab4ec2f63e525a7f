"""Evaluations of weight versions, blind arenas, and what differs in the replies of two versions."""
