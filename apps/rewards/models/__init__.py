"""What was said about rollouts: rewards, judges' kept replies, and new sets of rewards beside the first."""

from apps.rewards.models.rescorings import Rescored, RescoredGroup, RescoredReward, Rescoring
from apps.rewards.models.rewards import ALL_SIMULATED, LATE, SIMULATED, JudgeReply, Reward, RewardQuerySet

__all__ = [
    "ALL_SIMULATED",
    "LATE",
    "SIMULATED",
    "JudgeReply",
    "Rescored",
    "RescoredGroup",
    "RescoredReward",
    "Rescoring",
    "Reward",
    "RewardQuerySet",
]
