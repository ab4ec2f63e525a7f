"""The trainer: it takes recorded batches, makes steps, and writes weights and checkpoints.

`host.TrainerHost` is the trainer without a database (torch and TRL only); `loop` and `job` run it
for the runs of the database.
"""
