"""What happened: groups of rollouts drawn for one task, and every rollout with its tokens."""

from apps.rollouts.models.groups import GAVE_UP, IN_FORCE, Claim, Group
from apps.rollouts.models.rollouts import Outcome, Rollout, RolloutPayload, shown

__all__ = ["GAVE_UP", "IN_FORCE", "Claim", "Group", "Outcome", "Rollout", "RolloutPayload", "shown"]
