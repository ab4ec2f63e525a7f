"""Rewards of rollouts, and the scorers that compute them."""
