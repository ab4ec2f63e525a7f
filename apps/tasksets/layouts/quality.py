"""People's judgements of an answer in a data set.

An answer judged bad never becomes a demonstration. A rating needs a threshold.
"""

from apps.tasksets.layouts.contract import (
    NotGood,
    Row,
    RowReading,
    is_finite_number,
    parse_number,
    parse_rating,
)

# Fields that say whether an answer is good, as true or false, or in a word.
VERDICTS = (
    "label",
    "kto_tag",
    "is_good",
    "is_up",
    "is_correct",
    "correct",
    "accepted",
    "approved",
    "thumbs_up",
    "thumb",
    "thumbs",
    "feedback",
    "vote",
    "quality",
    "human_feedback",
    "human_label",
    "user_feedback",
    "preferred",
    "is_preferred",
    "is_accepted",
    "is_helpful",
    "is_safe",
    "response_harm_label",
    "helpful",
    "good",
    "liked",
    "verdict",
    "judgement",
    "judgment",
    "evaluation",
    "assessment",
    "decision",
    "status",
    "problem_is_valid",
    "solution_is_valid",
)
# Fields that say, as true, that an answer is bad.
COMPLAINTS = (
    "rejected",
    "is_rejected",
    "bad",
    "is_bad",
    "is_wrong",
    "is_incorrect",
    "is_harmful",
    "harmful",
    "is_toxic",
    "toxic",
    "flagged",
    "is_flagged",
    "thumbs_down",
    "disliked",
)
# Fields that rate an answer on a scale that the field does not tell.
RATINGS = (
    "rating",
    "ratings",
    "stars",
    "score",
    "quality",
    "overall_score",
    "overall_rating",
    "human_score",
    "human_rating",
    "user_rating",
)
GOOD_WORDS = frozenset(
    {
        "good",
        "excellent",
        "up",
        "thumbs_up",
        "thumbs-up",
        "positive",
        "yes",
        "true",
        "correct",
        "accept",
        "accepted",
        "approve",
        "approved",
        "chosen",
        "helpful",
        "like",
        "liked",
        "pass",
        "passed",
        "safe",
        "unharmful",
        "+1",
        "1",
        "👍",
    }
)
BAD_WORDS = frozenset(
    {
        "bad",
        "poor",
        "very-poor",
        "down",
        "thumbs_down",
        "thumbs-down",
        "negative",
        "no",
        "false",
        "incorrect",
        "incomplete",
        "problem-not-solved",
        "wrong",
        "reject",
        "rejected",
        "unhelpful",
        "harmful",
        "unsafe",
        "dislike",
        "disliked",
        "fail",
        "failed",
        "-1",
        "0",
        "👎",
    }
)
# Fields in which 0 means that nobody said anything.
COUNTS = frozenset({"feedback", "vote", "thumb", "thumbs"})
HELPFUL = 3  # of HelpSteer's scale from 0 to 4


def is_good(value: object) -> bool | None:
    """Return whether a verdict is good or bad; None for other values."""
    if isinstance(value, bool):
        return value
    if is_finite_number(value) and value in (-1, 0, 1):
        return value == 1
    if isinstance(value, str):
        word = value.strip().lower().replace(" ", "-")
        return True if word in GOOD_WORDS else False if word in BAD_WORDS else None
    return None


def require_good(row: Row, taking: RowReading) -> None:
    """Raise NotGood if a field marks the answer as bad, or rates it without a threshold."""
    for name in COMPLAINTS:
        if dict.get(row, name) is True:
            raise NotGood(
                f"{name}: is true, so this answer is rated as bad and is not a demonstration"
            )
    for name in VERDICTS:
        value = _verdict_in(row.get(name))
        if name in COUNTS and parse_number(value) == 0:
            continue
        if is_good(value) is False:
            raise NotGood(
                f"{name}: is {row[name]!r}, so this answer is rated as bad and is not a "
                "demonstration"
            )
    if parse_number(row.get("helpfulness")) is not None:
        require_rated(
            row, "helpfulness", HELPFUL if taking.min_rating is None else taking.min_rating
        )
    for name in RATINGS:
        rating = parse_number(row.get(name))
        if rating is None:
            continue
        if taking.min_rating is None:
            raise NotGood(
                f"{name}: the rating {rating:g} has an unknown scale; set the lowest rating "
                "of a good answer (at least)"
            )
        require_rated(row, name, taking.min_rating)


def _verdict_in(value: object) -> object:
    """Return the verdict in an object, such as {"rating": "bad"}; any other value as it is."""
    if not isinstance(value, dict):
        return value
    candidates = (
        value.get(name) for name in ("rating", "value", "label", "verdict", "thumb", "thumbs")
    )
    return next((candidate for candidate in candidates if is_good(candidate) is not None), None)


def require_rated(row: Row, name: str, min_rating: float) -> None:
    """Raise NotGood where the rating in this field is below the bound."""
    rating = parse_rating(row, name)
    if rating < min_rating:
        raise NotGood(
            f"{name}: is {rating:g}, below {min_rating:g}, so the answer is not a demonstration"
        )
