"""TRL without vLLM: to be imported before it.

TRL imports vLLM wherever that is installed, for a generation of its own that is never used here. It would be six of fifteen seconds
of every trainer's start, some of the GPU's memory, and a warning for each version that TRL does not know. Names relied on, pinned
to 1.16: `trl.import_utils.is_vllm_available`.
"""

from trl import import_utils


def _is_never_used(*_: object, **__: object) -> bool:
    return False


import_utils.is_vllm_available = _is_never_used
