"""Scoring again: stored rollouts of a run are judged by other scorers, versions or weights, and compared with the first time.

`choosing` says which rollouts, `asking` by whom, `judging` takes groups for a scorer worker and writes what was said, and
`comparing` what that changed. What was said first is never touched.
"""
