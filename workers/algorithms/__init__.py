"""What the trainer minimises: pure torch functions from the logprobs of a micro-batch to one value per token.

No function here knows the trainer, the buffer or the name of an algorithm. `tokens.py` holds what goes in and out.
"""
