"""The column layouts in which preferences and demonstrations are shared, each brought to ours. Pure: a row in, a row out.

A layout is told by its columns; a row that has ours is left alone. Names are those of the data sets or libraries that use them:
    messages, sharegpt, alpaca, response           demonstrations
    conversations in pairs, hh-rlhf, ultrafeedback preferences (the shared beginning of both conversations is the prompt)
    stepwise, prm800k                              thumbs: an answer is good when none of its steps is bad
KTO's prompt, completion, label and TRL's prompt, chosen, rejected are ours already.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Messages = list[dict[str, str]]
ROLES = {
    "system": "system", "user": "user", "human": "user", "prompter": "user", "assistant": "assistant", "gpt": "assistant",
    "model": "assistant", "bot": "assistant", "chatgpt": "assistant",
}  # fmt: skip
TRANSCRIPT = re.compile(r"(?:^|\n\n)(Human|Assistant):[ ]?")
RESPONSES = ("response", "completion", "output", "answer")
SCORES = (("score_chosen", "score_rejected"), ("chosen_score", "rejected_score"), ("chosen_rating", "rejected_rating"))


class NotThisLayout(ValueError):
    """The row has the columns of a layout and is none of it; the message names the field and what is right."""


@dataclass(frozen=True)
class Layout:
    """`kind`: of the lesson it makes. `matches` looks at the columns, `read` gives ours or raises NotThisLayout."""

    name: str
    kind: str
    title: str
    matches: Callable[[Row], bool]
    read: Callable[[Row], Row]


def ours_of(row: Row, kind: str) -> tuple[str, Row]:
    """(layout's name, the row with our columns); "" for a row that is no known layout of this kind. Raises NotThisLayout."""
    layout = next((layout for layout in LAYOUTS if layout.kind == kind and layout.matches(row)), None)
    return ("", row) if layout is None else (layout.name, {**row, **layout.read(row)})


# -- conversations ----------------------------------------------------------------------------------------------------------


def conversation(value: object, column: str) -> Messages:
    """Messages as [{role, content}], from those of chat templates or of ShareGPT; other keys of a message are not read."""
    if not isinstance(value, list) or not value:
        raise NotThisLayout(f"{column}: must be a list of messages that says something")
    return [_message(message, f"{column}[{n}]") for n, message in enumerate(value)]


def _message(message: object, place: str) -> dict[str, str]:
    if not isinstance(message, dict):
        raise NotThisLayout(f"{place}: must be a message such as {{'role': 'user', 'content': '…'}}")
    role, content = message.get("role", message.get("from")), message.get("content", message.get("value"))
    if not isinstance(role, str) or role.lower() not in ROLES:
        raise NotThisLayout(f"{place}: its role is {role!r}; known are {', '.join(ROLES)}")
    if not isinstance(content, str):
        raise NotThisLayout(f"{place}: its content must be a text")
    return {"role": ROLES[role.lower()], "content": content}


def transcript(text: str, column: str) -> Messages:
    """`\\n\\nHuman: …\\n\\nAssistant: …` as messages."""
    parts = TRANSCRIPT.split(text)
    if parts[0].strip() or len(parts) < 3:
        raise NotThisLayout(f"{column}: a transcript begins with 'Human:' and goes on with 'Assistant:'")
    return [{"role": ROLES[who.lower()], "content": said.strip()} for who, said in zip(parts[1::2], parts[2::2], strict=True)]


def ended(messages: Messages, column: str) -> tuple[Messages, str]:
    """What was asked, and the assistant's last answer to it."""
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise NotThisLayout(f"{column}: must end with the assistant's answer to something")
    return messages[:-1], messages[-1]["content"]


# -- preferences ------------------------------------------------------------------------------------------------------------


def _pair(row: Row, read: Callable[[Any, str], Messages]) -> Row:
    asked, chosen = ended(read(row["chosen"], "chosen"), "chosen")
    other, rejected = ended(read(row["rejected"], "rejected"), "rejected")
    if asked != other:
        raise NotThisLayout("rejected: its conversation goes another way than chosen's before the last answer")
    return {"prompt": asked, "chosen": chosen, "rejected": rejected, **_margin(row)}


def _margin(row: Row) -> Row:
    """By how much, where both have a score; a pair that its scores contradict is not taken for sure."""
    if row.get("margin") is not None:
        return {}
    for better, worse in SCORES:
        scores = row.get(better), row.get(worse)
        if all(type(score) in (int, float) for score in scores):
            if scores[0] < scores[1]:
                raise NotThisLayout(f"{better}: is {scores[0]:g}, less than {worse}, {scores[1]:g}: which is better?")
            return {"margin": float(scores[0] - scores[1])}
    return {}


def _is_conversations(row: Row) -> bool:
    """Both sides whole conversations: more than one message each, or no prompt beside them."""
    sides = [row.get("chosen"), row.get("rejected")]
    return all(isinstance(side, list) for side in sides) and any(len(side) > 1 for side in sides)


def _is_transcripts(row: Row) -> bool:
    sides = [row.get("chosen"), row.get("rejected")]
    return "prompt" not in row and all(isinstance(side, str) and TRANSCRIPT.match(side) for side in sides)


def _is_scored(row: Row) -> bool:
    return "prompt" in row and {"chosen", "rejected"} <= row.keys() and any({*pair} <= row.keys() for pair in SCORES)


# -- demonstrations ---------------------------------------------------------------------------------------------------------


def _shown(messages: Messages, column: str) -> Row:
    asked, answer = ended(messages, column)
    return {"prompt": asked, "answer": answer}


def _alpaca(row: Row) -> Row:
    asked = [row["instruction"], row.get("input") or ""]
    if not all(isinstance(text, str) for text in asked) or not asked[0].strip():
        raise NotThisLayout("instruction: must be a text that says something, and input a text or left out")
    system = row.get("system")
    before = [{"role": "system", "content": system}] if isinstance(system, str) and system.strip() else []
    question = "\n\n".join(text for text in asked if text.strip())
    return {"prompt": [*before, {"role": "user", "content": question}], "answer": row["output"]}


def _response(row: Row) -> Row:
    return {"answer": next(row[name] for name in RESPONSES if name in row)}


# -- turn labels ------------------------------------------------------------------------------------------------------------


def _stepwise(row: Row) -> Row:
    steps, labels = row["completions"], row["labels"]
    if not (isinstance(steps, list) and steps and all(isinstance(step, str) for step in steps)):
        raise NotThisLayout("completions: must be a list of texts, one for each step")
    if not isinstance(labels, list) or len(labels) != len(steps) or not all(type(label) is bool for label in labels):
        raise NotThisLayout(f"labels: must be {len(steps)} times true or false, one for each step")
    return {"completion": "\n".join(steps), "label": all(labels)}


def _prm800k(row: Row) -> Row:
    question, label = row["question"], row["label"]
    steps = label.get("steps") if isinstance(label, dict) else None
    if not isinstance(question, dict) or not isinstance(question.get("problem"), str) or not isinstance(steps, list) or not steps:
        raise NotThisLayout("question.problem must be a text and label.steps a list of steps")
    taken = [_prm_step(step, f"label.steps[{n}]") for n, step in enumerate(steps)]
    return {"prompt": question["problem"], "completion": "\n".join(text for text, _ in taken), "label": all(ok for _, ok in taken)}


def _prm_step(step: object, place: str) -> tuple[str, bool]:
    """The step that was gone on with, and whether it is not bad."""
    known = step.get("completions") if isinstance(step, dict) else None
    if not isinstance(known, list) or not known:
        raise NotThisLayout(f"{place}.completions: must be a list of what was tried")
    chosen = step.get("chosen_completion")
    if type(chosen) is int and not 0 <= chosen < len(known):
        raise NotThisLayout(f"{place}.chosen_completion: is {chosen}; there are {len(known)}")
    tried = known[chosen if type(chosen) is int else 0]
    if not isinstance(tried, dict) or not isinstance(tried.get("text"), str) or tried.get("rating") not in (-1, 0, 1, None):
        raise NotThisLayout(f"{place}: needs a text, and a rating of -1, 0 or 1")
    return tried["text"], tried.get("rating") != -1


def _has(*names: str, without: Sequence[str] = ()) -> Callable[[Row], bool]:
    return lambda row: all(name in row for name in names) and not any(name in row for name in without)


LAYOUTS: tuple[Layout, ...] = (
    Layout("conversations", "preferences", "pairs of conversations (UltraFeedback, Argilla DPO mix, TRL)", _is_conversations,
           lambda row: _pair(row, conversation)),
    Layout("transcripts", "preferences", "pairs of transcripts (HH-RLHF)", _is_transcripts, lambda row: _pair(row, transcript)),
    Layout("scored", "preferences", "prompt, chosen and rejected with scores", _is_scored, _margin),
    Layout("messages", "demonstrations", "messages", _has("messages", without=("answer",)),
           lambda row: _shown(conversation(row["messages"], "messages"), "messages")),
    Layout("sharegpt", "demonstrations", "conversations (ShareGPT)", _has("conversations", without=("answer",)),
           lambda row: _shown(conversation(row["conversations"], "conversations"), "conversations")),
    Layout("alpaca", "demonstrations", "instruction, input and output (Alpaca)",
           _has("instruction", "output", without=("answer",)), _alpaca),
    Layout("response", "demonstrations", "prompt and response", lambda row: "prompt" in row and "answer" not in row
           and any(name in row for name in RESPONSES), _response),
    Layout("stepwise", "thumbs", "prompt, completions and labels (stepwise supervision)",
           _has("completions", "labels", without=("completion",)), _stepwise),
    Layout("prm800k", "thumbs", "question and label.steps (PRM800K)", _has("question", "label", without=("completion",)), _prm800k),
)  # fmt: skip
