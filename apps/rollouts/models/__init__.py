"""Groups of rollouts sampled for one task, rollouts with their tokens, and chats."""

from apps.rollouts.models.chats import Chat, ChatTurn, Comparison
from apps.rollouts.models.groups import GAVE_UP, Group
from apps.rollouts.models.rollouts import Outcome, Rollout, RolloutPayload, storable_output

__all__ = [
    "GAVE_UP",
    "Chat",
    "ChatTurn",
    "Comparison",
    "Group",
    "Outcome",
    "Rollout",
    "RolloutPayload",
    "storable_output",
]
