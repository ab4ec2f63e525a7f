"""What trained what: rollouts, rewards and lessons of a step, and steps that a rating went into.

A replay trains again with the decisions of some people left out.
"""
