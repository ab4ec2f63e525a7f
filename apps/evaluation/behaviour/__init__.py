"""Behaviour difference of two weight versions: what changed in their replies to the same tasks."""
