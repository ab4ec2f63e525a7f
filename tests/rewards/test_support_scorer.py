"""The rules of the support scorer: polite, on topic, one or two sentences, nothing invented."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer

GOOD = "I am sorry about your lamp. Please send it back and we will gladly repair it."


def judged(text: str, stop_reason: str = "stop", answer: dict | None = None):
    task = TaskView((), {"product": "lamp"} if answer is None else answer)
    return find_scorer("support").judge([RolloutView(text, stop_reason=stop_reason)], task)[0]


def test_good_reply_gets_the_full_reward():
    assert judged(GOOD).value == 1.0


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("Your lamp goes to our workshop. It will be repaired soon.", "polite"),
        ("I am sorry about your stupid lamp. Please send it back.", "polite"),
        ("I am sorry about your kettle. Please send it back.", "on_topic"),
        ("I am sorry about your clamp. Please send it back.", "on_topic"),
        ("Sorry about your lamp. Please wait. We will write. Goodbye.", "short"),
        ("Sorry, your lamp!", "short"),
        ("I am sorry about your lamp. Please send it", "short"),
        ("I am sorry about your lamp.\n\nPlease send it back.", "short"),
        ("Sorry about the lamp, sorry about the lamp, sorry about the lamp.", "short"),
        ("Sorry about your lamp " + "and all the trouble " * 12 + "with it.", "short"),
        ("I am sorry about your lamp. Please wait 3 days.", "nothing_invented"),
        ("I am sorry about your lamp. Please wait three days.", "nothing_invented"),
        ("I am sorry about your lamp. Please call us on Monday.", "nothing_invented"),
        ("I am sorry about your lamp. Please ask [Name].", "nothing_invented"),
        ("I am sorry about your lamp. Please see www.shop.example for help.", "nothing_invented"),
    ],
)
def test_each_broken_rule_costs_a_quarter(text, broken):
    verdict = judged(text)
    assert [rule for rule, is_kept in verdict.details.items() if not is_kept] == [broken]
    assert verdict.value == 0.75


def test_cut_off_reply_loses_a_quarter():
    assert judged(GOOD, stop_reason="length").value == 0.75


@pytest.mark.parametrize("text", ["", "   ", "?!", "The weather is fine and the sky is blue."])
def test_impolite_off_topic_reply_gets_no_reward(text):
    assert judged(text).value == 0.0


def test_reply_of_a_megabyte_gets_no_reward():
    assert judged("lamp " * 200_000).value == 0.0


@pytest.mark.parametrize("answer", [{}, {"product": ""}, {"product": 3}])
def test_task_without_a_product_is_not_judged(answer):
    verdict = judged(GOOD, answer=answer)
    assert verdict.value is None and "product" in verdict.reason
