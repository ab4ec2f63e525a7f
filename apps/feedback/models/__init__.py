"""What people say: ratings of rollouts, and lessons (demonstrations, preferences, thumbs) to learn from directly."""

from apps.feedback.models.lessons import LESSONS, Demonstration, ExpertAnswer, Lesson, Preference, Thumb
from apps.feedback.models.ratings import (
    NotRatable,
    Rating,
    Submission,
    close_overdue,
    people_still_wanted,
    queue_for,
    ratable_by,
    rating_counts,
    settle,
)

__all__ = [
    "LESSONS", "Demonstration", "ExpertAnswer", "Lesson", "NotRatable", "Preference", "Rating", "Submission", "Thumb",
    "close_overdue", "people_still_wanted", "queue_for", "ratable_by", "rating_counts", "settle",
]  # fmt: skip
