"""Rescoring: judge stored rollouts by other scorers, versions or weights, and compare.

`choosing` selects the rollouts and `asking` checks the scorers. `judging` takes groups for a scorer
worker and writes the judgements. `comparing` reports what changed. The first rewards are never
changed.
"""
