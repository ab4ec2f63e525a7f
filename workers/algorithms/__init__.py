"""Losses and advantages as pure torch functions, from a micro-batch's logprobs to token values.

No function here knows the trainer, the buffer or the name of an algorithm. `tokens.py` holds what
goes in and out.
"""
