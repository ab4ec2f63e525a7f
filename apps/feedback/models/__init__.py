"""Human feedback: items, ratings, interventions and lessons.

Lessons are demonstrations, preferences and thumbs.
"""

from apps.feedback.models.adjudications import Adjudication
from apps.feedback.models.calibrations import Calibration
from apps.feedback.models.interventions import Intervention
from apps.feedback.models.items import (
    ANSWERED,
    ASIDE,
    KNOWN,
    NORMING,
    Item,
    Skip,
    Slot,
    open_slots,
)
from apps.feedback.models.lessons import (
    LESSONS,
    Demonstration,
    ExpertAnswer,
    Lesson,
    Preference,
    Thumb,
)
from apps.feedback.models.rater_models import Prediction, RaterModel, RolloutBaseNll
from apps.feedback.models.ratings import (
    FLAG,
    MAX_CRITIQUE_LENGTH,
    STARS,
    Rating,
    RatingReward,
    rating_counts,
)
from apps.feedback.models.suspicions import Guess, Suspicion, SuspicionAction, SuspicionItem

__all__ = [
    "ANSWERED",
    "ASIDE",
    "FLAG",
    "KNOWN",
    "LESSONS",
    "MAX_CRITIQUE_LENGTH",
    "NORMING",
    "STARS",
    "Adjudication",
    "Calibration",
    "Demonstration",
    "ExpertAnswer",
    "Guess",
    "Intervention",
    "Item",
    "Lesson",
    "Prediction",
    "Preference",
    "RaterModel",
    "Rating",
    "RatingReward",
    "RolloutBaseNll",
    "Skip",
    "Slot",
    "Suspicion",
    "SuspicionAction",
    "SuspicionItem",
    "Thumb",
    "open_slots",
    "rating_counts",
]
