"""Database models of rewards, judges' cached replies, rescorings, and the test bench."""

from apps.rewards.models.rescorings import Rescored, RescoredGroup, RescoredReward, Rescoring
from apps.rewards.models.rewards import (
    ALL_SIMULATED,
    LATE,
    SIMULATED,
    JudgeReply,
    NewReward,
    Reward,
    RewardQuerySet,
)
from apps.rewards.models.testbench import RegressionCase, RegressionCheck, Trial

__all__ = [
    "ALL_SIMULATED",
    "LATE",
    "SIMULATED",
    "JudgeReply",
    "NewReward",
    "RegressionCase",
    "RegressionCheck",
    "Rescored",
    "RescoredGroup",
    "RescoredReward",
    "Rescoring",
    "Reward",
    "RewardQuerySet",
    "Trial",
]
