"""The final answer is found when marked, announced in seven languages, or in a sentence."""

import pytest

from apps.rewards.final_answer import after_thinking, boxes, final_answer
from apps.rewards.scorers import RolloutView, TaskView, find_scorer


def value(response: str, wanted: str) -> float | None:
    return (
        find_scorer("math").judge([RolloutView(response)], TaskView((), {"value": wanted}))[0].value
    )


FOUND = [
    ("The answer is 60. No, the answer is 61.", "61"),
    ("[Answer] 42", "42"),
    ("The correct option is (C).", "C"),
    ("The right choice is D.", "D"),
    ("Answer: 12 (twelve)", "12"),
    ("So x=3 is extraneous, and x=7 is the solution.", "7"),
    ("共有120万人。", "1200000"),
    ("合計は12個です。", "12"),
    ("Всего 12 яблок.", "12"),
    ("La réponse est 61.", "61"),
    ("Die Antwort ist 61.", "61"),
    ("Die Antwort lautet: 61", "61"),
    ("Das Ergebnis beträgt 61.", "61"),
    ("Antwort: 61", "61"),
    ("La respuesta es 61.", "61"),
    ("Respuesta: 61", "61"),
    ("答案是61。", "61"),
    ("答案：61", "61"),
    ("最终答案是 $61$。", "61"),
    ("所以答案为61", "61"),
    ("答えは61です。", "61"),
    ("答え：61", "61"),
    ("Ответ: 61", "61"),
    ("Ответ: 61.", "61"),
    ("Ответ — 61.", "61"),
    ("Правильный ответ 61", "61"),
    (r"Le résultat est $\frac12$.", "1/2"),
    ("La réponse finale est : 61", "61"),
    ("Die Lösung ist x = 61.", "61"),
    ("因此，答案是 $x=61$。", "61"),
    ("故 x = 61。", "61"),
    ("因此 x 的值为 61。", "61"),
    ("Réponse : 3,5", "3.5"),
    ("La solución es 3/4.", "3/4"),
    (r"Por lo tanto, la respuesta es \(61\).", "61"),
    ("The answer is: 61", "61"),
    ("The answer is **61**.", "61"),
    ("**Answer**: 61", "61"),
    ("**Final Answer:** 61", "61"),
    ("Answer: $61", "61"),
    ("Final answer: 61 apples", "61"),
    ("The final answer is 61 dollars.", "61"),
    ("So the answer is (C).", "C"),
    ("Answer: C", "C"),
    ("The correct answer is C.", "C"),
    ("Therefore, the value of x is 61.", "61"),
    ("Hence x = 61.", "61"),
    ("x = 61", "61"),
    ("Thus, the total is 61, as desired.", "61"),
    (r"So the area is $12\pi$ square units.", r"12\pi"),
    ("The solutions are $x=3$ and $x=-3$.", "3,-3"),
    ("The roots are $-3$ and $4$.", "-3,4"),
    ("So $f(3) = 61$.", "61"),
    ("We get $61$.", "61"),
    ("That gives $x^2+1$.", "x^2+1"),
    (r"\[ x = 61 \]", "61"),
    ("$$61$$", "61"),
    ("It costs $61", "61"),
    ("It costs 61€.", "61"),
    ("So she has **61** apples.", "61"),
    ("The answer is 61. I hope this helps!", "61"),
    ("The answer is 61.\n\nLet me know if you have any questions!", "61"),
    ("The answer is\n61", "61"),
    ("Answer:\n\n61", "61"),
    ("Q: what?\nA: 61", "61"),
    ("A: The total is 61.", "61"),
    ("<think>Maybe 60.</think>The answer is 61.", "61"),
    (r"\boxed{} \boxed{61}", "61"),
    (r"\boxed{...} so \boxed{61}", "61"),
    (r"\boxed{61} so \boxed{61}", "61"),
    (r"<answer>\boxed{61}</answer>", "61"),
    (r"\boxed{61} <answer>61</answer>", "61"),
    ("<answer>61</answer>", "61"),
    ("<answer>The answer is 61.</answer>", "61"),
    (r"\boxed{-3}, \boxed{4}", "-3,4"),
    (r"\fbox{61}", "61"),
    (r"\boxed 61", "61"),
    (r"\boxed{\boxed{61}}", "61"),
    ("#### 61", "61"),
    ("#### $61", "61"),
    ("#### 61.00", "61"),
    ("#### 1,061", "1061"),
    (r"$\boxed{61}$ apples", "61"),
    (r"[ \boxed{61} ]", "61"),
    (r"Put it in \boxed{answer}. The answer is 61.", "61"),
    ("The answer is $x = 61$ or $x = 60$.", "60, 61"),
    ("The answer is 3, 4 and 5.", "3,4,5"),
    ("The answer is (3, 4).", "(3,4)"),
    ("The answer is [3, 4).", "[3,4)"),
    (r"Answer: \frac{1}{2}", "1/2"),
    ("The answer is 50%.", "50%"),
    ("The answer is 1/2", "0.5"),
    ("answer = 61", "61"),
    ("The answer is 3.5.", "3.5"),
    ("The answer is -3.", "-3"),
    ("the answer is x^2 - 1.", "x^2-1"),
    ("The answer is no solution.", r"\emptyset"),
    ("There is no solution.", r"\emptyset"),
    ('The answer is "Tuesday".', "Tuesday"),
    ("It is Tuesday.", "Tuesday"),
]
NOT_FOUND = [
    ("Hence $n=12$ is impossible.", "12"),
    ("x = 5 does not work.", "5"),
    ("x = 5 is not a solution.", "5"),
    ("不是12个。", "12"),
    ("Answer: 60 or 61", "61"),
    ("I think it is 60 or 61", "61"),
    ("It is not 61.", "61"),
    ("The answer is not 61.", "61"),
    ("So 3x = 61.", "61"),
    ("We have that 3x = 61.", "61"),
    ("The equation is x + 5 = 61.", "61"),
    ("Therefore y^2 = 61.", "61"),
    ("<think>The answer is 61.</think> I do not know.", "61"),
    ("<think>The answer is 61.", "61"),
    (r"\boxed{61} \boxed{", "61"),
    (r"\boxed{61", "61"),
    (r"\boxed{60} so \boxed{61}", "61"),
    (r"\boxed{4} and \boxed{-3}", "(−3,4)"),
    (r"\boxed{3}, wait, no: \boxed{4}", "3,4"),
    (r"\boxed{3} and \boxed{4} and \boxed{5}", "3,4"),
]


@pytest.mark.parametrize(("response", "wanted"), FOUND)
def test_answer_is_found_in_the_reply(response, wanted):
    assert value(response, wanted) == 1.0


@pytest.mark.parametrize(("response", "wanted"), NOT_FOUND)
def test_denied_cut_off_unsolved_or_multiple_answers_get_no_reward(response, wanted):
    assert value(response, wanted) == 0.0


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a", ""),
        ("<seed:think>a</seed:think>b", "b"),
        ("<scratchpad>a</scratchpad>b", "b"),
        ("<|START_THINKING|>a<|END_THINKING|>b", "b"),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b", "b"),
        ("<|channel|>analysis<|message|>a", ""),
        ("[THINK]a[/THINK]b", "b"),
        ("<think>a</think>b<think>c", "b"),
        ("b", "b"),
    ],
)
def test_closed_and_unclosed_thoughts_are_removed(response, said):
    assert after_thinking(response) == said


def test_box_without_braces_holds_one_number_or_command():
    assert boxes(r"\boxed 61 and \boxed\frac{1}{2}, not \boxed here") == ["61", r"\frac{1}{2}"]


def test_several_boxes_keep_their_order_unless_one_is_retracted():
    assert final_answer(r"\boxed{3} and \boxed{4}").parts == ("3", "4")
    assert final_answer(r"\boxed{3}, no, \boxed{4}").parts == ()
