"""Answers in JSON, in other scripts, in phrases of other languages, and before explanations."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer

CHOICES = {"value": "B", "choices": {"A": "Paris", "B": "London", "C": "Rome"}}
FENCED = '```json\n{"reasoning": "6*7", "answer": "42"}\n```'
SAID: dict[str, list[tuple[str, object, str, float]]] = {
    "a JSON object": [
        ("math", "42", '{"answer": 42}', 1),
        ("math", "42", '{"reasoning": "6*7", "final_answer": "\\\\boxed{42}"}', 1),
        ("math", "42", FENCED, 1),
        ("math", "42", "Here it is:\n" + FENCED, 1),
        ("math", "42", '{"answer": "not 42"}', 0),
        ("math", "42", '{"answer": 42, "result": 41}', 0),
        ("math", "42", '{"answer": [42, 41]}', 0),
        ("math", "42", '{"answer": true}', 0),
        ("math", "42", '{"guess": 42}', 0),
    ],
    "other digits and languages": [
        ("math", "42", "٤٢", 1),
        ("math", "42", "الجواب النهائي: ٤٢", 1),
        ("math", "42", "คำตอบคือ 42", 1),
        ("math", "42", "คำตอบ: ๔๒", 1),
        ("math", "42", "उत्तर ४२ है।", 1),
        ("math", "42", "जवाब: 42", 1),
        ("math", "42", "คำตอบคือ 41", 0),
        ("math", "3.14", "\\boxed{٣٫١٤}", 1),
        ("math", "0.\\overline{12}", "\\boxed{0.1\u03052\u0305}", 1),
        ("math", "0.\\overline{3}", "\\boxed{0.3}", 0),
    ],
    "a time in a sentence": [
        ("math", "10:30 AM", "It arrives at 10:30 AM.", 1),
        ("math", "10:30 AM", "It arrives at **10:30 a.m.**", 1),
        ("math", "10:30 AM", "It leaves at 9:00 AM and arrives at 11:30 AM.", 0),
        ("math", "10:30 AM", "It does not arrive at 10:30 AM.", 0),
        ("math", "10:30 AM", "It arrives before 10:30 AM.", 0),
        ("math", "10:30 AM", "It arrives 5 minutes after 10:30 AM.", 0),
    ],
    "a name in a sentence": [
        ("math", "Monday", "It will be Monday.", 1),
        ("math", r"\text{Alice}", "The winner is Alice.", 1),
        ("math", "Monday", "It is not Monday.", 0),
        ("math", r"\text{Alice}", "The winner is Alice or Bob.", 0),
        ("math", r"\text{Alice}", "The winner is never Alice", 0),
    ],
    "words around a number": [
        ("math", "18", "Answer: 18 (dollars)", 1),
        ("math", "9 (apples)", r"\boxed{9}", 1),
        ("math", "18", "Answer: 18 (wrong)", 0),
        ("math", r"\frac{3}{8}", r"\boxed{\text{The probability is } \frac{3}{8}}", 1),
        ("math", r"\frac{3}{8}", r"\boxed{\text{The probability is not } \frac{3}{8}}", 0),
        ("math", r"\frac{3}{8}", r"\boxed{\Pr = 3/8}", 1),
        ("math", "0", "None", 0),
        ("math", r"\vec{i}+2\vec{j}", r"\boxed{\mathbf{i}+2\mathbf{j}}", 1),
        ("math", r"\vec{i}+2\vec{j}", r"\boxed{\hat{i}-2\hat{j}}", 0),
        ("math", "3+4i", r"\boxed{3+4\mathbf{i}}", 1),
    ],
    "what is no formula and no unit": [
        ("math", "2023", r"\boxed{2023_{10}0}", 0),
        ("math", r"\{1,2\}", "#### emod 7", 0),
        ("math", "2", r"\boxed{2xmod 7}", 0),
        ("math", "2", "The answer is 2xmod 7\\deg\\ln y.", 0),
        ("math", "5", r"\boxed{5 \text{ apples}}", 1),
    ],
    "frames around a short answer": [
        ("short_answer", "กรุงเทพ", "คำตอบคือกรุงเทพ", 1),
        ("short_answer", "กรุงเทพ", "คำตอบคือเชียงใหม่", 0),
        ("short_answer", "กรุงเทพ", "ไม่ใช่กรุงเทพ", 0),
        ("short_answer", "القاهرة", "الجواب هو القاهرة.", 1),
        ("short_answer", "القاهرة", "ليست القاهرة", 0),
        ("short_answer", "東京", "東京です。", 1),
        ("short_answer", "東京", "東京ではありません。", 0),
        ("short_answer", "서울", "답은 서울입니다.", 1),
        ("short_answer", "서울", "서울이 아닙니다.", 0),
        ("short_answer", "Москва", "Это Москва.", 1),
        ("short_answer", "Москва", "Это не Москва.", 0),
    ],
    "a year with its day": [
        ("short_answer", "1969", "On July 20, 1969.", 1),
        ("short_answer", "1969", "It was 20 July 1969.", 1),
        ("short_answer", "1969", "the year 1969", 1),
        ("short_answer", "1969", "July 1968", 0),
        ("short_answer", "1969", "It was not July 1969.", 0),
        ("short_answer", "1969", "1 July 1969 or 2 July 1970", 0),
    ],
    "a choice before its explanation": [
        ("choice", CHOICES, "Answer: b", 1),
        ("choice", CHOICES, "The answer is a boat.", 0),
        ("choice", CHOICES, "B\n\nExplanation: A (Paris) is in France.", 1),
        ("choice", CHOICES, "答案：B\n解析：A 是法国的首都。", 1),
        ("choice", CHOICES, "Answer: B\n\nExplanation: wait, actually A is right.", 0),
        ("choice", CHOICES, "B\nExplanation: So the answer is C.", 0),
        ("choice", CHOICES, "Answer: A\n\nExplanation: B is wrong.", 0),
        ("choice", CHOICES, "Explanation: A is in France.\n\nAnswer: B", 1),
    ],
}


@pytest.mark.parametrize("name", SAID)
def test_answer_in_another_form_is_read_and_only_right_answers_are_rewarded(name):
    found = []
    for scorer, wanted, response, worth in SAID[name]:
        task = TaskView((), wanted if isinstance(wanted, dict) else {"value": wanted})
        verdict = find_scorer(scorer).judge([RolloutView(response)], task)[0]
        found += [] if verdict.value == worth else [(response, verdict.value, verdict.reason)]
    assert found == []
