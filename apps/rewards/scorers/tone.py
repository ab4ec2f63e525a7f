"""Scores a support reply: polite, about the right object, in complete sentences.

Well-formedness is judged because a rater that looks at words alone is hacked: rated by words, the
demo policy reaches .94 while none of its replies stays a sentence.
"""

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict
from apps.tasksets.tone_language import Sentence, is_well_formed, read_reply

WORTH = {"polite": 1.0, "flat": 0.4, "rude": 0.0}
WRONG_OBJECT = 0.4  # what is left of the value when the reply is about something else
MALFORMED = 0.25  # the most that a reply outside the grammar can get
MAX_REPLY_LENGTH = 2_000  # characters; the longest reply of the grammar has under 200


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """Return the mean worth of the sentences.

    It is cut for a wrong object, and at most .25 outside the grammar.
    """
    return judge_tone(rollout.text, task.answer.get("object"))


def judge_tone(text: str, expected: object) -> Verdict:
    """Return a reply that must be about this object."""
    if not isinstance(expected, str):
        return Verdict(None, "the task does not name the topic")
    if len(text) > MAX_REPLY_LENGTH:
        return Verdict(0.0, f"longer than {MAX_REPLY_LENGTH} characters", {"well_formed": False})
    sentences = read_reply(text)
    if not sentences:
        return Verdict(0.0, "nothing was said", {"well_formed": False})
    return _judge(sentences, expected)


def _judge(sentences: list[Sentence], expected: str) -> Verdict:
    manners = [sentence.manner for sentence in sentences]
    right_object = {name for sentence in sentences for name in sentence.objects} == {expected}
    well_formed = is_well_formed(sentences)
    value = sum(WORTH[manner] for manner in manners) / len(manners)
    value *= (1.0 if right_object else WRONG_OBJECT) * (1.0 if well_formed else MALFORMED)
    details = {"manners": manners, "right_object": right_object, "well_formed": well_formed}
    return Verdict(round(value, 4), _reason(manners, right_object, well_formed), details)


def _reason(manners: list[str], right_object: bool, well_formed: bool) -> str:
    """Return the reason as a person would give it, the worst fault first."""
    if not well_formed:
        return "not in complete sentences"
    if "rude" in manners:
        return "rude"
    if not right_object:
        return "about the wrong object"
    return "polite" if set(manners) == {"polite"} else "correct but cool"
