"""Train from files as data sets have them: GSM8K's JSON lines and MBPP's, on the whole stack.

    python bench/data_sets.py gsm8k [--steps 60] [--port 8331]
    python bench/data_sets.py mbpp

The script writes a file of small tasks in the data set's own form, warms up a tiny policy on
replies of which some are right, and then uses the commands that anybody would use: `policy add`,
`taskset import`, `runs create --start`, `runs follow`. The last line on standard output is JSON:
the mean reward of the first and last steps, and the rewards without a value, by reason. Exit code 1
if a reward has none, if the run did not complete, or if it did not learn.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CONTEXT = 192  # tokens, which are characters
ROWS = 32  # of an update of the warm-up
LEARNING_RATE = 2e-3
GAIN = 0.15  # of the mean reward, from the first to the last steps, that counts as learned
NAMES = ("Ann", "Ben", "Eva", "Tom")
THINGS = ("pens", "cups", "hats", "eggs")
FUNCTIONS = {  # what is asked of f({0}), and the expression that does it
    "doubles {0}": "{0}*2",
    "triples {0}": "{0}*3",
    "squares {0}": "{0}*{0}",
    "negates {0}": "-{0}",
    "halves {0}, rounded down": "{0}//2",
    "adds one to {0}": "{0}+1",
    "adds two to {0}": "{0}+2",
    "adds five to {0}": "{0}+5",
    "adds nine to {0}": "{0}+9",
    "takes one from {0}": "{0}-1",
    "takes two from {0}": "{0}-2",
    "takes five from {0}": "{0}-5",
    "takes nine from {0}": "{0}-9",
    "takes {0} from ten": "10-{0}",
    "gives the size of {0}": "abs({0})",
    "gives the last digit of {0}": "{0}%10",
    "gives the larger of {0} and 0": "max({0},0)",
    "gives the smaller of {0} and 0": "min({0},0)",
    "tells if {0} is even": "{0}%2==0",
    "tells if {0} is odd": "{0}%2==1",
    "tells if {0} is zero": "{0}==0",
    "tells if {0} is below zero": "{0}<0",
    "writes {0} as text": "str({0})",
    "makes a list of {0}": "[{0}]",
}
VARIABLES = "abknxy"
TRIED = (0, 7, -13)  # arguments of the tests

PLAN = """
policy: tiny
taskset: tasks
steps: {steps}
group_size: 8
groups_per_step: 8
max_staleness: 1
sampling: {{max_tokens: 48}}
rewards: [{{scorer: {scorer}}}]
algorithm: {{name: grpo, kl: none}}
optimizer: {{learning_rate: 2e-4}}
"""


@dataclass(frozen=True)
class DataSet:
    """Rows as the data set has them, and what the tiny policy is warmed up on: (prompt, reply)."""

    scorer: str
    warm_up: int  # updates
    tokenizer: Callable[[], object]
    rows: Callable[[], Iterator[dict]]
    replies: Callable[[int], Iterator[tuple[str, str]]]


# -- GSM8K -----------------------------------------------------------------------------------------


def word_problem(name: str, thing: str, first: int, second: int) -> str:
    return f"{name} has {first} {thing} and buys {second} more. How many {thing} has {name}?"


def gsm8k_rows() -> Iterator[dict]:
    """Yield {question, answer}; the answer is worked out as GSM8K's are and ends with ####."""
    for name in NAMES:
        for thing in THINGS:
            for first in range(1, 10):
                for second in range(1, 10):
                    total = first + second
                    yield {
                        "question": word_problem(name, thing, first, second),
                        "answer": (
                            f"{name} has {first}+{second}=<<{first}+{second}={total}>>{total} "
                            f"{thing}.\n#### {total}"
                        ),
                    }


def gsm8k_replies(seed: int) -> Iterator[tuple[str, str]]:
    """Yield replies in GSM8K's form: 40 % add, 30 % subtract, 30 % add wrongly by one."""
    draw = random.Random(seed)
    while True:
        first = draw.randrange(1, 10)
        second = draw.randrange(1, 10)
        question = word_problem(draw.choice(NAMES), draw.choice(THINGS), first, second)
        sign, result = draw.choices(
            (("+", first + second), ("-", first - second), ("+", first + second + 1)), (4, 3, 3)
        )[0]
        yield question, f"{first}{sign}{second}={result}\n#### {result}"


# -- MBPP ------------------------------------------------------------------------------------------


def mbpp_rows() -> Iterator[dict]:
    """Yield {task_id, text, code, test_list, test_setup_code, challenge_test_list}."""
    number = 0
    for what, expression in FUNCTIONS.items():
        for variable in VARIABLES:
            number += 1
            text = expression.format(variable)
            yield {
                "task_id": number,
                "text": function_wanted(what, variable),
                "code": f"def f({variable}):\n    return {text}",
                "test_list": [f"assert f({at}) == {value_at(expression, at)!r}" for at in TRIED],
                "test_setup_code": "",
                "challenge_test_list": [],
            }


def function_wanted(what: str, variable: str) -> str:
    return f"Write f({variable}) that {what.format(variable)}."


def value_at(expression: str, at: int) -> object:
    return eval(expression.format(f"({at})"))  # noqa: S307 - an expression of this file


def mbpp_replies(seed: int) -> Iterator[tuple[str, str]]:
    """Yield fenced functions: 30 % do what was asked, the others what any of the tasks asks."""
    draw = random.Random(seed)
    expressions = list(FUNCTIONS.values())
    while True:
        what, expression = draw.choice(list(FUNCTIONS.items()))
        variable = draw.choice(VARIABLES)
        chosen = expression if draw.random() < 0.3 else draw.choice(expressions)
        code = f"def f({variable}):\n return {chosen.format(variable)}"
        yield function_wanted(what, variable), f"```python\n{code}\n```"


def mbpp_tokenizer() -> object:
    """Return a tokenizer of the words and marks of all tasks and replies."""
    from workers.policies import tokenizing

    texts = [function_wanted(what, variable) for what in FUNCTIONS for variable in VARIABLES]
    texts += [f"```python\ndef f({variable}):\n return \n```" for variable in VARIABLES]
    texts += [expression.format("") for expression in FUNCTIONS.values()]
    parts = {part for text in texts for part in re.findall(r"[A-Za-z]+|[^A-Za-z]", text)}
    return tokenizing.of_words_and_blanks(sorted(parts))


def gsm8k_tokenizer() -> object:
    from workers.policies import tokenizing

    return tokenizing.of_characters(LETTERS)


LETTERS = "abcdefghijklmnopqrstuvwxyzABEHTW0123456789 .,?#+-*=`():\n"
DATA_SETS = {
    "gsm8k": DataSet("math", 800, gsm8k_tokenizer, gsm8k_rows, gsm8k_replies),
    "mbpp": DataSet("code", 400, mbpp_tokenizer, mbpp_rows, mbpp_replies),
}


# -- the whole stack -------------------------------------------------------------------------------


def main() -> int:
    options = parse_options()
    data_set = DATA_SETS[options.data_set]
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as folder:
        place = Path(folder)
        write_files(data_set, place, options.steps)
        build_policy(data_set, place / "policy")
        facts = train(place, options)
    print(json.dumps(facts))
    has_learned = facts["reward_last"] - facts["reward_first"] >= GAIN
    return int(facts["state"] != "completed" or bool(facts["missing"]) or not has_learned)


def write_files(data_set: DataSet, place: Path, steps: int) -> None:
    rows = list(data_set.rows())
    random.Random(0).shuffle(rows)
    (place / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (place / "run.yaml").write_text(PLAN.format(steps=steps, scorer=data_set.scorer))


def build_policy(data_set: DataSet, folder: Path) -> None:
    """Warm up a fresh model of 0.8 million parameters on the replies, and seal it."""
    import torch

    from workers.policies import warming
    from workers.policies.recipes import Recipe
    from workers.policies.saving import save_base

    torch.set_num_threads(1)
    recipe = Recipe(
        name="tiny",
        hidden=128,
        layers=4,
        warmup_steps=data_set.warm_up,
        rows=ROWS,
        learning_rate=LEARNING_RATE,
        max_tokens=48,
        tokenizer=data_set.tokenizer,
        demonstrate=data_set.replies,
    )
    tokenizer = recipe.tokenizer()
    model = warming.fresh(recipe, tokenizer, 0)
    model.config.max_position_embeddings = CONTEXT  # Qwen3's rotary angles do not depend on it
    warming.warm_policy(model, tokenizer, recipe, 0, report_warm_up)
    question, _ = next(data_set.replies(0))
    save_base(model, tokenizer, folder, question)


def report_warm_up(step: int, loss: float) -> None:
    if step % 50 == 0:
        say(f"warm-up: {step} updates, loss {loss:.3f}")


def train(place: Path, options: argparse.Namespace) -> dict[str, object]:
    """Import the file and train on it with the commands; return what came of it."""
    os.environ.update(
        RFTWEB_VAR=str(place / "var"),
        DATABASE_URL="",
        REDIS_URL="",
        DJANGO_SETTINGS_MODULE="rftweb.settings",
    )
    import django

    django.setup()
    from rftweb.supervisor import Supervisor

    with Supervisor(place / "var", port=options.port, quiet=True, stdout=sys.stderr):
        from apps.accounts.models import Project

        Project.objects.create(slug="bench", title="Bench")
        command("policy", "add", place / "policy", "--slug", "tiny")
        command("taskset", "import", place / "tasks.jsonl")
        command("runs", "create", place / "run.yaml", "--start")
        command("runs", "follow", "run")
        return result()


def command(*words: object) -> None:
    subprocess.run(
        [sys.executable, ROOT / "manage.py", *map(str, words)], check=True, stdout=sys.stderr
    )


def result() -> dict[str, object]:
    """Return the rewards of the first and last steps, and the rewards without a value."""
    from apps.rewards.models import Reward
    from apps.runs.models import Run
    from rftweb.management.run_report import FIRST_STEPS, newest_rewards, rounded_mean, step_rewards

    run = Run.objects.get(slug="run")
    rewards = Reward.objects.filter(rollout__run=run)
    missing = Counter(rewards.filter(value=None).values_list("reason", flat=True))
    return {
        "state": run.state,
        "steps": run.step,
        "reward_first": rounded_mean(step_rewards(run, 1, FIRST_STEPS)),
        "reward_last": rounded_mean(newest_rewards(run)),
        "rewards": rewards.count(),
        "missing": dict(missing),
    }


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_set", choices=sorted(DATA_SETS))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--port", type=int, default=8331)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
