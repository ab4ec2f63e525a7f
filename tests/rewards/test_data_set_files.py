"""Tasks in the forms of GSM8K and MBPP, as bench/data_sets.py writes them for whole runs: every one
is imported and judged, and its tokenizer can encode the right replies."""

import itertools
import json

from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.tasksets.layouts import TASKS, RowReading, read_row, recognised
from bench.data_sets import DATA_SETS


def imported(name: str, every: int) -> list[tuple[dict, dict]]:
    """Return some of the rows, and the tasks that an import makes of them."""
    rows = list(itertools.islice(DATA_SETS[name].rows(), 0, None, every))
    layout = recognised(rows, TASKS)
    return [(row, task) for row in rows for task in read_row(layout, row, TASKS, RowReading())]


def value_of(name: str, task: dict, reply: str) -> float | None:
    answer = task["answer"] if isinstance(task["answer"], dict) else {"value": task["answer"]}
    view = TaskView(task["prompt"], json.loads(json.dumps(answer)))
    return find_scorer(DATA_SETS[name].scorer).judge([RolloutView(reply)], view)[0].value


def test_mbpp_task_rewards_its_own_code_and_not_that_of_the_next_task():
    tasks = imported("mbpp", every=6)
    for (row, task), (other, _) in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        assert "f(" in task["prompt"][0]["content"]
        assert value_of("mbpp", task, f"```python\n{row['code']}\n```") == 1.0, row
        assert value_of("mbpp", task, f"```python\n{other['code']}\n```") == 0.0, row


def test_gsm8k_task_rewards_its_own_solution_and_no_other_number():
    for row, task in imported("gsm8k", every=50):
        assert value_of("gsm8k", task, row["answer"]) == 1.0, row
        assert value_of("gsm8k", task, f"{row['answer']}1") == 0.0, row


def test_every_training_reply_of_the_data_sets_gets_a_value():
    for name in DATA_SETS:
        task = imported(name, every=1000)[0][1]
        replies = itertools.islice(DATA_SETS[name].replies(0), 20)
        assert {value_of(name, task, said) for _, said in replies} <= {0.0, 1.0}


def test_tokenizer_reproduces_every_reply_exactly():
    for name in DATA_SETS:
        tokenizer = DATA_SETS[name].tokenizer()
        for asked, said in itertools.islice(DATA_SETS[name].replies(0), 200):
            for text in (asked, said):
                ids = tokenizer.encode(text, add_special_tokens=False)
                assert tokenizer.unk_token_id not in ids
                assert tokenizer.decode(ids) == text
