"""Kinds of plugins that a run's configuration names: advantages, losses and rater models.

What they are called with is said where they are called: apps.pipelines.plugin_advantages,
workers.trainer.plugin_losses, apps.feedback.rater_model.plugins.
"""

from apps.plugins.kinds import ADVANTAGE, LOSS, RATER_MODEL
from apps.plugins.parts import kind_of_parts
from apps.plugins.registry import REGISTRY

REGISTRY.register(
    kind_of_parts(ADVANTAGE, "rftweb.advantages", "advantages", ("rewards", "options"))
)
REGISTRY.register(kind_of_parts(LOSS, "rftweb.losses", "loss", ("tokens", "options")))
REGISTRY.register(
    kind_of_parts(RATER_MODEL, "rftweb.rater_models", "fit", ("decisions", "options"))
)
