"""Training from lessons (demonstrations, preferences, thumbs) instead of sampled rollouts.

Demonstrations (sft) go through the trainer of all other runs, as rows that experts wrote and
nothing beside them. Pairs and thumbs have a trainer of their own (`lesson_trainer`), at the same
batch_queue, with the same checkpoints.
"""
