"""Losses and advantages as pure torch functions, from a micro-batch's logprobs to values per token.

No function here knows the trainer, the buffer or the name of an algorithm. `tokens.py` defines the
inputs and outputs.
"""
