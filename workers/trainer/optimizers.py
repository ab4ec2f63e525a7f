"""Translate a run's optimizer and learning-rate schedule into arguments of transformers.

Names used from transformers 5.19: the values of `TrainingArguments.optim` and `.lr_scheduler_type`,
and `Trainer.get_decay_parameter_names`, which excludes biases and norms from weight decay. All
schedules are torch's `LambdaLR`, whose position a checkpoint keeps.
"""

import importlib.util
from typing import Any

from workers.trainer.spec import TrainerSpec

SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
# torch's fused AdamW, one kernel for all parameters, exists on CPUs and on GPUs.
OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw_8bit": "adamw_bnb_8bit"}
MOMENT_BYTES = {"adamw": 8, "adamw_8bit": 2}  # of each trained parameter, both moments together


class UnsupportedOptimizer(ValueError):
    """Optimizer that this machine lacks; the message names the configuration field."""


def optimizer_arguments(spec: TrainerSpec) -> dict[str, Any]:
    """Return the library's arguments for both. Raises UnsupportedOptimizer."""
    if spec.optimizer == "adamw_8bit" and importlib.util.find_spec("bitsandbytes") is None:
        raise UnsupportedOptimizer(
            "optimizer.kind: adamw_8bit requires the package bitsandbytes on the trainer's "
            "machine; install it or use adamw"
        )
    return {
        "optim": OPTIMIZERS[spec.optimizer],
        "learning_rate": spec.learning_rate,
        "lr_scheduler_type": SCHEDULES[spec.schedule],
        "warmup_steps": spec.warmup_steps,
        "adam_beta1": spec.betas[0],
        "adam_beta2": spec.betas[1],
        "weight_decay": spec.weight_decay,
        "max_grad_norm": spec.max_grad_norm,
    }
