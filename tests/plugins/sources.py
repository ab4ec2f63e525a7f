"""Source texts of valid and invalid plugins for tests."""

SCORER = '''"""Rewards a reply with the word."""

from pydantic import Field

from apps.rewards.scorers import ScorerOptions, Verdict

VERSION = 3


class Options(ScorerOptions):
    word: str = Field("please", description="The word.")


def score(rollout, task, options):
    return Verdict(float(options.word in rollout.text), "looked for the word")
'''
OPERATOR = '''"""Leaves out long replies."""

from apps.pipelines.operators import sift

FAMILY = "clean"


def apply(samples, options):
    return sift(samples, lambda sample: "long" if len(sample.text) > 9 else "")
'''
GENERATOR = '''"""Asks for the letter after another one."""

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def generate(size, seed):
    for place in draw_distinct(25, size, seed):
        asked = f"Which letter is after {LETTERS[place]}?"
        yield TaskRow(user_message(asked), {"value": LETTERS[place + 1]})
'''
BROKEN = '"""Fails to import."""\n\nimport no_such_module\n\ndef score(a, b, c): ...\n'
