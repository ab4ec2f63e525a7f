"""Training from lessons: what people showed, preferred or gave a thumb, instead of what the policy sampled.

Demonstrations (sft) go through the trainer of all other runs, as rows that experts wrote and nothing beside them. Pairs and
thumbs have a trainer of their own (`lesson_trainer`), at the same gate, with the same checkpoints.
"""
