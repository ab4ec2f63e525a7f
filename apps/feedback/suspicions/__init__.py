"""Suspicions of reward hacking: found in a run's newest replies, shown to people, acted upon."""
