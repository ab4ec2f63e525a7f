"""Layouts of rows that hold answers of one side: demonstrations and thumbs."""

from typing import TypeGuard, cast

from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    THUMBS,
    Layout,
    NotGood,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    has,
    is_objects,
    is_texts,
    parse_number,
    parse_rating,
    require_text,
)
from apps.tasksets.layouts.conversations import (
    decoded,
    is_conversation,
    read_answer,
    read_conversation,
    split_last_answer,
)
from apps.tasksets.layouts.quality import HELPFUL, is_good, require_good

QUESTIONS = ("prompt", "question", "instruction", "query", "problem", "input")
GIVEN = ("context", "passage", "body")  # texts that a question is about
ANSWERS = ("answer", "completion", "response", "output", "solution", "generated_solution")
LABELS = ("label", "kto_tag", "is_up", "thumb", "thumbs_up")


def read_question(row: Row) -> object:
    """Return what was asked, under any of the usual names."""
    name = first_text(row, QUESTIONS)
    if not name:
        raise NotThisLayout(f"the prompt is missing; use one of the columns {', '.join(QUESTIONS)}")
    if name == "instruction":
        return alpaca_prompt(row)
    is_about = name == "question" and isinstance(row[name], str)
    return with_given(row[name], row, GIVEN) if is_about else row[name]


def with_given(question: str, row: Row, names: tuple[str, ...]) -> str:
    """Return the question behind the text that it is about, in the first of these columns."""
    # dict.get: a column that is no text is not taken
    name = next((name for name in names if _passage(dict.get(row, name))), "")
    return f"{_passage(row[name])}\n\n{question}" if name else question


def _passage(value: object) -> str:
    """Return a text, or several with or without titles, as HotpotQA has them; else ""."""
    value = decoded(value)
    if isinstance(value, str):
        return value.strip()
    if is_texts(value):
        return "\n\n".join(text.strip() for text in value)
    if isinstance(value, dict) and is_texts(value.get("contexts")):  # PubMedQA
        return "\n\n".join(text.strip() for text in value["contexts"])
    if not isinstance(value, dict) or not is_texts(value.get("title")):
        return ""
    sentences = value.get("sentences")
    if not isinstance(sentences, list) or not all(map(is_texts, sentences)):
        return ""
    passages = zip(value["title"], sentences, strict=False)
    return "\n\n".join(f"{title}\n{''.join(lines).strip()}" for title, lines in passages)


# -- conversations and Alpaca ----------------------------------------------------------------------


def _conversations_in(row: Row) -> str:
    """Return the column that holds a conversation, or ""."""
    names = ("messages", "conversations", "conversation", "dialogue", "dialog", "items")
    return next((name for name in names if is_conversation(row.get(name))), "")


def _is_conversation(row: Row) -> bool:
    return bool(_conversations_in(row)) and not any(
        name in row for name in ("answer", "chosen", "rejected")
    )


def shown_in(row: Row, taking: RowReading) -> Row:
    name = _conversations_in(row)
    turns = decoded(row[name])
    assert is_objects(turns)  # the layout matches only conversations
    if turns[-1].get("weight") == 0:
        raise NotGood(f"{name}: the weight of the last answer is 0, so it is not a demonstration")
    messages, answer = split_last_answer(read_conversation(turns, name, taking), name)
    try:
        require_good(turns[-1], taking)  # of what people said of this answer alone
    except NotGood as error:
        raise NotGood(f"{name}, last message: {error}") from None
    return {"prompt": messages, "answer": answer}


def _judged_conversation(row: Row, taking: RowReading) -> Row:
    conversation = shown_in(row, taking)
    return {
        "prompt": conversation["prompt"],
        "completion": conversation["answer"],
        "label": read_label(row),
    }


def read_label(row: Row) -> bool:
    """Return whether the row's answer is good. Raises NotThisLayout if no column tells."""
    name = first_text(row, LABELS)
    verdict = is_good(row.get(name))
    if verdict is None:
        raise NotThisLayout(f"{name or 'label'}: must be true (good) or false (bad)")
    return verdict


def alpaca_prompt(row: Row) -> str:
    """Return instruction and input, or Dolly's context, as one question. Raises NotThisLayout."""
    texts = [row["instruction"], row.get("input") or row.get("context") or ""]
    if not all(isinstance(text, str) for text in texts) or not texts[0].strip():
        raise NotThisLayout(
            "instruction: must be text that is not empty; input must be text or omitted"
        )
    return "\n\n".join(text for text in texts if text.strip())


def _is_alpaca(row: Row) -> bool:
    return isinstance(row.get("instruction"), str) and "output" in row and "answer" not in row


def _alpaca(row: Row, taking: RowReading) -> Row:
    return {"prompt": alpaca_prompt(row), "answer": require_text(row, "output")}


def _judged_alpaca(row: Row, taking: RowReading) -> Row:
    return {
        "prompt": alpaca_prompt(row),
        "completion": require_text(row, "output"),
        "label": read_label(row),
    }


# -- question and answer ---------------------------------------------------------------------------


def _is_answered(row: Row) -> bool:
    return bool(first_text(row, QUESTIONS)) and bool(first_text(row, ANSWERS))


def _read_answered(row: Row, taking: RowReading) -> Row:
    name = "solution" if _is_worked_out(row) else first_text(row, ANSWERS)
    return {"prompt": read_question(row), "answer": read_answer(row[name], name, taking)}


def _is_worked_out(row: Row) -> bool:
    """Tell whether the row has a solution beside a shorter answer, which is only its result."""
    # dict.get: the one of the two that is not taken is told as such
    solution = dict.get(row, "solution")
    answer = dict.get(row, "answer")
    if not isinstance(solution, str) or not isinstance(answer, str):
        return False
    return len(solution.strip()) > len(answer.strip())


def _is_judged(row: Row) -> bool:
    return _is_answered(row) and bool(first_text(row, LABELS))


def _read_judged(row: Row, taking: RowReading) -> Row:
    name = first_text(row, ANSWERS)
    return {
        "prompt": read_question(row),
        "completion": read_answer(row[name], name, taking),
        "label": read_label(row),
    }


# -- several generated answers ---------------------------------------------------------------------


CHECKED = ("correctness_math_verify", "correctness_llama")


def _is_generated(row: Row) -> bool:
    return is_texts(decoded(row.get("generations"))) and bool(first_text(row, CHECKED))


def _checked_answers(row: Row, taking: RowReading) -> list[tuple[str, bool]]:
    """Return each answer that was checked and is whole, and whether it is right.

    An answer about which two checks disagree is right by neither. Raises NotThisLayout.
    """
    texts = cast("list[str]", decoded(row["generations"]))  # by `_is_generated`
    checks = [_verdicts(row, name, len(texts)) for name in CHECKED]
    complete = _verdicts(row, "is_reasoning_complete", len(texts))
    taking.dropped.update(_skipped_kinds(checks, complete))
    answers = []
    for text, whole, *verdicts in zip(texts, complete, *checks, strict=True):
        clear = {verdict for verdict in verdicts if verdict is not None}
        if len(clear) == 1 and whole is not False and text.strip():
            answers.append((text, clear.pop()))
    if not answers:
        raise NotThisLayout(f"{', '.join(CHECKED)}: no complete answer has a clear verdict")
    return answers


def _is_verdicts(value: object) -> TypeGuard[list[bool | None]]:
    return isinstance(value, list) and all(type(verdict) in (bool, type(None)) for verdict in value)


def _verdicts(row: Row, name: str, several: int) -> list[bool | None]:
    """Return true, false or None for each of the answers; None for all if there are no verdicts."""
    verdicts = decoded(row.get(name))
    if verdicts is None or verdicts == [] or verdicts == "":
        return [None] * several
    if not _is_verdicts(verdicts) or len(verdicts) != several:
        raise NotThisLayout(
            f"{name}: must be {several} times true or false, one for each of the generations"
        )
    return verdicts


def _skipped_kinds(checks: list[list[bool | None]], complete: list[bool | None]) -> set[str]:
    """Name the kinds of answers that are taken neither as right nor as wrong."""
    verdicts = [
        {value for value in column if value is not None} for column in zip(*checks, strict=True)
    ]
    is_skipped = {
        "generations that were not checked": any(not verdict for verdict in verdicts),
        "generations about which the checks disagree": any(
            len(verdict) > 1 for verdict in verdicts
        ),
        "generations that are cut off": False in complete,
    }
    return {name for name, holds in is_skipped.items() if holds}


def _judged_generations(row: Row, taking: RowReading) -> list[Row]:
    question = read_question(row)
    return [
        {"prompt": question, "completion": text, "label": is_right}
        for text, is_right in _checked_answers(row, taking)
    ]


def _right_generations(row: Row, taking: RowReading) -> list[Row]:
    question = read_question(row)
    checked = _checked_answers(row, taking)
    right = [text for text, is_right in checked if is_right]
    if not right:
        raise NotGood(f"{', '.join(CHECKED)}: every answer is wrong, so there is no demonstration")
    if len(right) < len(checked):
        taking.dropped.add("generations that are wrong")
    return [{"prompt": question, "answer": text} for text in right]


# -- reasoning of other models --------------------------------------------------------------------


# Columns of thoughts, of the answer behind them, and of its grade, the best first.
S1 = (
    ("deepseek_thinking_trajectory", "deepseek_attempt", "deepseek_grade"),
    ("gemini_thinking_trajectory", "gemini_attempt", "gemini_grade"),
    ("thinking_trajectories", "attempt", ""),
    ("deepseek_reasoning", "deepseek_solution", ""),  # OpenThoughts
)
R1 = ("r1_solution_1", "r1_solution_2", "r1_solution_3")


def _is_s1(row: Row) -> bool:
    return bool(first_text(row, QUESTIONS)) and any(has(row, *names[:2]) for names in S1)


def _s1(row: Row, taking: RowReading) -> Row:
    """Take the first model's reasoning that is not graded as wrong."""
    available = [names for names in S1 if has(row, *names[:2])]
    right = [names for names in available if is_good(row.get(names[2])) is not False]
    if not right:
        graded = ", ".join(names[2] for names in available)
        raise NotGood(f"{graded}: no answer is graded as right, so there is no demonstration")
    thoughts, answer, _ = right[0]
    thought = decoded(row[thoughts])
    thought = thought[0] if is_texts(thought) else thought
    if not isinstance(thought, str):
        raise NotThisLayout(f"{thoughts}: must be text, or a list of one")
    answer_text = f"<think>\n{thought.strip()}\n</think>\n\n{require_text(row, answer)}"
    return {"prompt": require_text(row, first_text(row, QUESTIONS)), "answer": answer_text}


def _is_reasoned(row: Row) -> bool:
    return isinstance(row.get("question"), str) and bool(first_text(row, R1))


def _reasoned(row: Row, taking: RowReading) -> list[Row]:
    question = require_text(row, "question")
    names = [name for name in R1 if row.get(name) is not None]
    return [{"prompt": question, "answer": require_text(row, name)} for name in names]


# -- UltraChat and Aya -----------------------------------------------------------------------------


def _is_turns(row: Row) -> bool:
    """Tell whether `data` holds the texts of a conversation, by turns of user and assistant."""
    turns = decoded(row.get(_column_of_turns(row)))
    return is_texts(turns) and len(turns) > 1


def _column_of_turns(row: Row) -> str:
    return first_text(row, ("data", "conversations"))


def _turns(row: Row, taking: RowReading) -> Row:
    name = _column_of_turns(row)
    turns = cast("list[str]", decoded(row[name]))  # by `_is_turns`
    if len(turns) % 2:
        raise NotThisLayout(f"{name}: ends with a text of the user, which has no answer")
    if not all(text.strip() for text in turns):
        raise NotThisLayout(f"{name}: every turn must be text that is not empty")
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(turns)]
    return {"prompt": messages[:-1], "answer": turns[-1]}


def is_aya(row: Row) -> bool:
    return isinstance(row.get("inputs"), str) and isinstance(row.get("targets"), str)


def _aya(row: Row, taking: RowReading) -> Row:
    """Take the author's id too: people wrote and edited these answers."""
    demonstration = {"prompt": require_text(row, "inputs"), "answer": require_text(row, "targets")}
    author = row.get("user_id")
    return demonstration | ({"author": author} if isinstance(author, str) and author else {})


# -- HelpSteer -------------------------------------------------------------------------------------


def _is_helpsteer(row: Row) -> bool:
    scales = ("helpfulness", "correctness", "coherence")
    return has(row, "prompt", "response") and all(
        parse_number(row.get(name)) is not None for name in scales
    )


def _rated(row: Row, taking: RowReading) -> Row:
    """Take helpfulness, from 0 to 4, as a verdict: 3 and 4 are good, 0 and 1 are bad."""
    value = parse_rating(row, "helpfulness")
    if 1 < value < HELPFUL:
        raise NotThisLayout(
            f"helpfulness: is {value:g} of 4, neither good nor bad, so it cannot become a thumb"
        )
    return {"prompt": row["prompt"], "completion": row["response"], "label": value >= HELPFUL}


def _helpful(row: Row, taking: RowReading) -> Row:
    return {"prompt": row["prompt"], "answer": row["response"]}


# -- labelled steps --------------------------------------------------------------------------------


def _is_stepwise(row: Row) -> bool:
    return "completions" in row and "labels" in row and "completion" not in row


def stepwise(row: Row, taking: RowReading) -> Row:
    steps = row["completions"]
    labels = row["labels"]
    if not is_texts(steps):
        raise NotThisLayout("completions: must be a list of texts, one for each step")
    if (
        not isinstance(labels, list)
        or len(labels) != len(steps)
        or not all(type(label) is bool for label in labels)
    ):
        raise NotThisLayout(f"labels: must be {len(steps)} times true or false, one for each step")
    return {
        "prompt": read_question(row),
        "completion": "\n".join(steps),
        "label": all(labels),
        **author_in(row),
    }


def good_steps(row: Row, taking: RowReading) -> Row:
    judged = stepwise(row, taking)
    if not judged["label"]:
        raise NotGood("labels: a step is rated as bad, so it is not a demonstration")
    return {"prompt": judged["prompt"], "answer": judged["completion"]}


def author_in(row: Row) -> Row:
    return {"author": row["author"]} if isinstance(row.get("author"), str) else {}


# -- PRM800K ---------------------------------------------------------------------------------------


def _is_prm800k(row: Row) -> bool:
    question = row.get("question")
    label = row.get("label")
    return isinstance(question, dict) and isinstance(label, dict) and "completion" not in row


def _prm800k(row: Row, taking: RowReading) -> Row:
    question = row["question"]
    label = row["label"]
    steps = label.get("steps")
    if not isinstance(question.get("problem"), str) or not is_objects(steps):
        raise NotThisLayout("question.problem must be a text and label.steps a list of steps")
    finish = label.get("finish_reason")
    if finish in ("give_up", "bad_problem"):
        raise NotThisLayout(
            f"label.finish_reason: is {finish}, so the answer is incomplete and has no rating"
        )
    rated_steps = [
        _step(step, f"label.steps[{number}]", taking) for number, step in enumerate(steps)
    ]
    is_up = all(good for _, good in rated_steps)
    if is_up and finish == "found_error":
        raise NotThisLayout("label.finish_reason: is found_error, but no chosen step is rated -1")
    author = row.get("labeler")
    return {
        "prompt": question["problem"],
        "completion": "\n".join(text for text, _ in rated_steps),
        "label": is_up,
        **({"author": author} if isinstance(author, str) and author else {}),
    }


def _step(step: Row, place: str, taking: RowReading) -> tuple[str, bool]:
    """Return the step that the solution continued with, and whether it is not bad.

    A step that a person wrote counts as good.
    """
    chosen_number = step.get("chosen_completion")
    attempts = step.get("completions") or []
    human_step = step.get("human_completion")
    if not is_objects(attempts) and human_step is None:
        raise NotThisLayout(f"{place}.completions: must be a list of attempts")
    if chosen_number is not None and (
        type(chosen_number) is not int or not 0 <= chosen_number < len(attempts)
    ):
        raise NotThisLayout(
            f"{place}.chosen_completion: is {chosen_number}, but there are {len(attempts)}"
            " completions"
        )
    is_written = chosen_number is None and human_step is not None
    followed_step = (
        human_step if is_written else attempts[chosen_number or 0]
    )  # where none was chosen, the person stopped at the first
    if len(attempts) > (0 if is_written else 1):
        taking.dropped.add("label.steps[].completions that were not chosen")
    if not isinstance(followed_step, dict) or not isinstance(followed_step.get("text"), str):
        raise NotThisLayout(f"{place}: must have text and a rating of -1, 0 or 1")
    rating = followed_step.get("rating")
    if rating not in (-1, 0, 1, None):
        raise NotThisLayout(f"{place}: the rating must be -1, 0 or 1, not {rating!r}")
    if rating is None and not is_written:
        raise NotThisLayout(f"{place}: the chosen step has no rating, so the answer cannot be used")
    return followed_step["text"], rating != -1


def _prm800k_shown(row: Row, taking: RowReading) -> Row:
    judged = _prm800k(row, taking)
    if not judged.pop("label"):
        raise NotGood("label.steps: a step is rated -1, so it is not a demonstration")
    return {"answer": judged.pop("completion"), **judged}


SPECIAL = (
    Layout(
        "prm800k",
        "PRM800K: question and label.steps",
        _is_prm800k,
        {THUMBS: _prm800k, DEMONSTRATIONS: _prm800k_shown},
    ),
    Layout(
        "stepwise",
        "stepwise supervision (TRL): prompt, completions and labels",
        _is_stepwise,
        {THUMBS: stepwise, DEMONSTRATIONS: good_steps},
    ),
    Layout(
        "generations",
        "OpenR1-Math: problem, generations and correctness_math_verify or correctness_llama",
        _is_generated,
        {THUMBS: _judged_generations, DEMONSTRATIONS: _right_generations},
    ),
    Layout(
        "s1",
        "s1K: question, thinking_trajectories and attempt, or those of two models",
        _is_s1,
        {DEMONSTRATIONS: _s1},
    ),
    Layout(
        "deepmath-solutions",
        "DeepMath: question and r1_solution_1 to 3",
        _is_reasoned,
        {DEMONSTRATIONS: _reasoned},
    ),
    Layout(
        "ultrachat",
        "UltraChat, LIMA: data or conversations, texts by turns of user and assistant",
        _is_turns,
        {DEMONSTRATIONS: _turns},
    ),
    Layout(
        "aya",
        "Aya: inputs and targets",
        is_aya,
        {DEMONSTRATIONS: _aya},
    ),
    Layout(
        "helpsteer",
        "HelpSteer: prompt, response and helpfulness from 0 to 4",
        _is_helpsteer,
        {THUMBS: _rated, DEMONSTRATIONS: _helpful},
    ),
    Layout(
        "kto-conversations",
        "KTO (LLaMA-Factory): messages or conversations, and label",
        lambda row: _is_conversation(row) and bool(first_text(row, LABELS)),
        {THUMBS: _judged_conversation, DEMONSTRATIONS: shown_in},
    ),
    Layout(
        "conversations",
        "messages (OpenAI, ChatML) or conversations (ShareGPT)",
        _is_conversation,
        {DEMONSTRATIONS: shown_in},
    ),
    Layout(
        "kto-alpaca",
        "KTO (LLaMA-Factory): instruction, input, output and kto_tag",
        lambda row: _is_alpaca(row) and bool(first_text(row, LABELS)),
        {THUMBS: _judged_alpaca, DEMONSTRATIONS: _alpaca},
    ),
    Layout(
        "alpaca",
        "Alpaca: instruction, input and output",
        _is_alpaca,
        {DEMONSTRATIONS: _alpaca},
    ),
)
GENERAL = (
    Layout(
        "kto",
        "KTO (TRL): prompt, completion and label",
        _is_judged,
        {THUMBS: _read_judged, DEMONSTRATIONS: _read_answered},
    ),
    Layout(
        "answer",
        "a question and an answer, under any of their usual names",
        _is_answered,
        {DEMONSTRATIONS: _read_answered},
    ),
)
