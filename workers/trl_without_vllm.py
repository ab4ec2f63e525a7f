"""TRL without vLLM; import this before TRL.

TRL imports vLLM wherever that is installed, for its own generation, which is never used here. That
would take six of fifteen seconds of every trainer's start, some of the GPU's memory, and give a
warning for each version that TRL does not know. Names relied on, pinned to 1.16:
`trl.import_utils.is_vllm_available`.
"""

from trl import import_utils


def _is_never_used(*_: object, **__: object) -> bool:
    return False


import_utils.is_vllm_available = _is_never_used
