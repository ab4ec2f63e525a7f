"""What was said about a rollout: rewards, and the scorers that give them."""
