"""Letters that a reply picks: stated, denied, listed, in words, and in other languages."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer


def value(response: str, answer: dict) -> float | None:
    return find_scorer("choice").judge([RolloutView(response)], TaskView((), answer))[0].value


ONE = [
    ("While A and D look right, B is correct.", "B", 1),
    ("Ni A ni C: B.", "B", 1),
    ("choose (b)", "B", 1),
    ("It is C, not B.", "C", 1),
    ("It is C, not B.", "B", 0),
    ("The answer is not C.", "C", 0),
    ("Not C.", "C", 0),
    ("A and B are wrong, so C.", "C", 1),
    ("A and B are wrong, so C.", "A", 0),
    ("C is correct because A, B and D are incorrect.", "C", 1),
    ("The answer is C rather than B.", "C", 1),
    ("Rather than B, I choose C.", "C", 1),
    ("C instead of B", "C", 1),
    ("All are wrong except C.", "C", 1),
    ("It isn't B. It's C.", "C", 1),
    ("It can't be A or B; the answer must be C.", "C", 1),
    ("B is better than C.", "C", 0),
    ("Neither A nor B; C.", "C", 1),
    ("Neither A nor B.", "A", 0),
    ("A is right.", "A", 1),
    ("A is the answer", "A", 1),
    ("I think A", "A", 1),
    ("A dog", "A", 0),
    ("The answer is A or B.", "A", 0),
    ("A, B, C, D", "A", 0),
    ("All of A, B, C and D are possible.", "A", 0),
    ("Answer: C", "C", 1),
    ("答案是C", "C", 1),
    ("答案：C", "C", 1),
    ("选C", "C", 1),
    ("不是B，是C", "C", 1),
    ("Antwort: C", "C", 1),
    ("**C**", "C", 1),
    ("(c)", "C", 1),
    ("c)", "C", 1),
    ("C. Oslo", "C", 1),
    ("- A\n- C", "C", 0),
    ("A\nC", "C", 0),
    ("A. Rome\nB. Paris\nC. Oslo", "C", 0),
    ("The answer is C.\nHope this helps!", "C", 1),
    ("We get \\boxed{x^2=C}.\nAnswer: B", "B", 1),
    (r"\boxed{C}", "C", 1),
    (r"\boxed{\text{C}}", "C", 1),
    (r"\boxed{(C)}", "C", 1),
    (r"\boxed{C. 12}", "C", 1),
    (r"\boxed{B, C}", "C", 0),
    (r"\boxed{B} no \boxed{C}", "C", 0),
    ("<answer>C</answer>", "C", 1),
    ("<answer>The answer is C</answer>", "C", 1),
    ("Option A is false. Option C is true.", "C", 1),
    ("Option A is true. Option C is true.", "C", 0),
    ("The answer is C, not A or B.", "C", 1),
    ("the answer is c.", "C", 1),
    ("It could be A, B or C.", "C", 0),
    ("C?", "C", 0),
    ("Is it C or D?", "C", 0),
    ("<think>A</think>C", "C", 1),
    ("<think>C", "C", 0),
    ("I choose option (C).", "C", 1),
    ("Choice C", "C", 1),
    ("The correct choice would be C (Oslo).", "C", 1),
    ("C is wrong.", "C", 0),
    ("C is false", "C", 0),
    ("C is not correct.", "C", 0),
    ("C isn't the answer", "C", 0),
    ("not A, not B, but C", "C", 1),
    ("Everything but C", "C", 0),
    ("#### C", "C", 1),
]
SEVERAL = [
    ("AC正确", 1),
    ("故选AC。", 1),
    ("AB正确", 0),
    ("The answers are A and C.", 1),
    ("- A\n- C", 1),
    ("A, C", 1),
    ("A and C, not B", 1),
    ("A & C", 1),
    ("Both A and C are correct.", 1),
    ("A is correct. B is wrong. C is correct.", 1),
    ("A, B, C, D", 0),
    ("A", 0),
    ("(A), (C)", 1),
    ("AC", 1),
    ("A, C and D", 0),
    (r"\boxed{A} and \boxed{C}", 1),
    (r"\boxed{A, C}", 1),
    ("The correct options are (A) and (C).", 1),
    ("1. A\n2. C", 1),
    ("* A) Rome\n* C) Oslo", 1),
    ("答案是A和C", 1),
    ("A、C", 1),
    ("Only A and C are right; B and D are false.", 1),
    ("A C", 1),
    ("a, c", 1),
]
IN_WORDS = [
    ("Paris", 1),
    ("The capital is Paris.", 1),
    ("It is Rome.", 0),
    ("It is Paris, not Rome.", 1),
    ("Paris or Rome", 0),
    ("Rome is wrong", 0),
    (r"\boxed{Paris}", 1),
]


@pytest.mark.parametrize(("response", "right", "worth"), ONE)
def test_single_choice_is_rewarded_only_if_exactly_its_letter_is_picked(response, right, worth):
    assert value(response, {"value": right}) == worth


@pytest.mark.parametrize(("response", "worth"), SEVERAL)
def test_multiple_choice_is_rewarded_only_if_exactly_its_letters_are_picked(response, worth):
    assert value(response, {"value": ["A", "C"]}) == worth


@pytest.mark.parametrize(("response", "worth"), IN_WORDS)
def test_choice_can_be_given_by_its_words(response, worth):
    assert value(response, {"value": "B", "choices": ["Rome", "Paris", "Oslo"]}) == worth
