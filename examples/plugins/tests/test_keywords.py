"""The scorer `keywords` keeps its contract and judges these replies."""

from pathlib import Path

from rftweb.testing import Example, check_scorer

PLUGIN = Path(__file__).parents[1] / "rftweb_examples" / "keywords.py"
ANSWER = {"keywords": ["refund", "week"]}


def test_keywords_judges_these_replies():
    check_scorer(
        PLUGIN,
        examples=[
            Example("Your refund comes next week.", 1.0, ANSWER),
            Example("Your refund comes soon.", 0.5, ANSWER),
            Example("Your refund comes soon.", 1.0, ANSWER, options={"needed": 0.5}),
            Example("Your refund comes soon.", None),
        ],
    )
