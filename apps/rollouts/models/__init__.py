"""What happened: groups of rollouts drawn for one task, every rollout with its tokens, and chats outside of learning."""

from apps.rollouts.models.chats import Chat, ChatTurn, Comparison
from apps.rollouts.models.groups import GAVE_UP, IN_FORCE, Claim, Group
from apps.rollouts.models.rollouts import Outcome, Rollout, RolloutPayload, shown

__all__ = [
    "GAVE_UP", "IN_FORCE", "Chat", "ChatTurn", "Claim", "Comparison", "Group", "Outcome", "Rollout", "RolloutPayload", "shown",
]  # fmt: skip
