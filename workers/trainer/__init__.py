"""The trainer: recorded batches come in, updates are made, weights and checkpoints go out.

`host.TrainerHost` is the whole of it without a database (torch and TRL only); `loop` and `job`
put it to work.
"""
