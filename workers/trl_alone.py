"""TRL without the optional packages that it loads wherever they are installed; import this before
TRL.

It imports vLLM for its own generation, and Weights & Biases and MLflow for its own reports; rftweb
generates and reports by itself. vLLM would take six of fifteen seconds of every trainer's start,
some of the GPU's memory, and give a warning for each version that TRL does not know; the other two
take a quarter of the rest. Only the names that TRL imports are replaced, so Transformers and
Accelerate themselves see what is installed.

Names relied on: `trl.import_utils.is_vllm_available` (pinned to 1.16), and `is_wandb_available` and
`is_mlflow_available` in the packages below.
"""

from typing import Any

import accelerate.utils
import transformers
import transformers.integrations
from trl import import_utils


def _is_never_used(*_: object, **__: object) -> bool:
    return False


import_utils.is_vllm_available = _is_never_used
packages: tuple[Any, ...] = (transformers, transformers.integrations, accelerate.utils)
for package in packages:
    package.is_wandb_available = _is_never_used
transformers.integrations.is_mlflow_available = _is_never_used
