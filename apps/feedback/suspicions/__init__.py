"""Suspicions that a run is hacking its reward: raised from its newest replies, shown to people, acted upon."""
