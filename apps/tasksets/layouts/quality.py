"""People's judgements of an answer in a data set.

An answer judged bad never becomes a demonstration. A rating needs a threshold.
"""

import re

from apps.tasksets.layouts.contract import (
    NotGood,
    Row,
    RowReading,
    parse_number,
    parse_rating,
    pass_over,
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
    "annotation",
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
# Words without case, blanks and hyphens.
GOOD_WORDS = frozenset(
    {
        "good",
        "great",
        "excellent",
        "perfect",
        "up",
        "upvote",
        "upvoted",
        "thumbsup",
        "positive",
        "yes",
        "true",
        "right",
        "correct",
        "accurate",
        "valid",
        "accept",
        "accepted",
        "acceptable",
        "approve",
        "approved",
        "agree",
        "chosen",
        "helpful",
        "like",
        "liked",
        "pass",
        "passed",
        "satisfied",
        "satisfactory",
        "success",
        "safe",
        "unharmful",
        "👍",
    }
)
BAD_WORDS = frozenset(
    {
        "bad",
        "poor",
        "terrible",
        "awful",
        "horrible",
        "worse",
        "worst",
        "down",
        "downvote",
        "downvoted",
        "thumbsdown",
        "negative",
        "no",
        "false",
        "wrong",
        "incorrect",
        "inaccurate",
        "invalid",
        "incomplete",
        "problemnotsolved",
        "unacceptable",
        "disagree",
        "reject",
        "rejected",
        "disapprove",
        "disapproved",
        "unhelpful",
        "harmful",
        "unsafe",
        "toxic",
        "spam",
        "dislike",
        "disliked",
        "fail",
        "failed",
        "failure",
        "dissatisfied",
        "unsatisfied",
        "unsatisfactory",
        "irrelevant",
        "👎",
    }
)
STRENGTHS = re.compile("very|really|extremely|completely|totally")
SKIN_TONES = dict.fromkeys(range(0x1F3FB, 0x1F400))
# Fields in which 0 means that nobody said anything.
COUNTS = frozenset({"feedback", "vote", "thumb", "thumbs"})
HELPFUL = 3  # of HelpSteer's scale from 0 to 4


def is_good(value: object) -> bool | None:
    """Return whether a verdict is good or bad; None for other values.

    1 is good, 0 and all numbers below are bad, also as texts ("0.0").
    """
    if isinstance(value, bool):
        return value
    number = parse_number(value)
    if number is not None:
        return True if number == 1 else False if number <= 0 else None
    return _is_good_word(value) if isinstance(value, str) else None


def _is_good_word(text: str) -> bool | None:
    word = re.sub(r"[\s_-]+", "", text.translate(SKIN_TONES).lower())
    word = STRENGTHS.sub("", word) or word
    if word.startswith("not") and word[3:] in GOOD_WORDS:
        return False
    return True if word in GOOD_WORDS else False if word in BAD_WORDS else None


def require_good(row: Row, taking: RowReading) -> None:
    """Raise NotGood if a field marks the answer as bad, or rates it without a threshold.

    Fields whose values say neither are not read, so that they are listed as not taken.
    """
    for name in COMPLAINTS:
        if dict.get(row, name) is True:
            raise NotGood(
                f"{name}: is true, so this answer is rated as bad and is not a demonstration"
            )
    for name in (*VERDICTS, *RATINGS):
        verdict = _verdict_in(dict.get(row, name))
        number = parse_number(verdict)
        is_none = number is not None and (name in RATINGS or (name in COUNTS and number == 0))
        if is_none or is_good(verdict) is None:
            continue
        pass_over(row, name)
        if not is_good(verdict):
            raise NotGood(
                f"{name}: is {row[name]!r}, so this answer is rated as bad and is not a "
                "demonstration"
            )
    if parse_number(dict.get(row, "helpfulness")) is not None:
        require_rated(
            row, "helpfulness", HELPFUL if taking.min_rating is None else taking.min_rating
        )
    for name in RATINGS:
        rating = parse_number(dict.get(row, name))
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
