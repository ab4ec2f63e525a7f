"""Training from lessons (demonstrations, preferences, thumbs) instead of sampled rollouts.

Demonstrations (sft) go through the trainer of all other runs, as a batch of expert rows only. Pairs
and thumbs have a trainer of their own (`lesson_trainer`), with the same batch queue and the same
checkpoints.
"""
