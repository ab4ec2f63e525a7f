"""Layouts of rows that ask something with a known answer: tasks."""

import re
import unicodedata
from typing import Any, cast

from apps.tasksets.layouts.answers import ANSWERS, LABELS, QUESTIONS, is_aya, read_question
from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotGood,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    has,
    is_finite_number,
    is_texts,
    parse_number,
    require_text,
)
from apps.tasksets.layouts.conversations import (
    decoded,
    is_conversation,
    is_message,
    read_answer,
    read_conversation,
    read_prompt_messages,
    split_last_answer,
)
from apps.tasksets.layouts.quality import is_good

MAX_DOMAIN_LENGTH = 60
BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(?P<sign>[0-9]+|[A-Za-z](?![A-Za-z])))")
FINAL = re.compile(r"####[ \t]*(\S[^\n]*)")
JUDGED = ("problem_is_valid", "solution_is_valid")  # NuminaMath 1.5: Yes, No, Incomplete …
NO_ANSWERS = frozenset({"proof", "notfound", "not found", "none", ""})
COUNTDOWN = (
    "Make {target} from the numbers {numbers}. Use each exactly once, with +, -, *, / and "
    "brackets. "
    "Write the formula in <answer> </answer>."
)


def domain_name(value: object) -> str:
    """Return the name of a domain in our spelling: "Number Theory" is number-theory; "" where
    nothing is left."""
    if (
        isinstance(value, list) and value
    ):  # ["Mathematics -> Algebra -> …"], the first one's last part
        value = value[0]
        value = value.rpartition("->")[2] if isinstance(value, str) else value
    text = str(value) if is_finite_number(value) else value
    if not isinstance(text, str):
        return ""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")[:MAX_DOMAIN_LENGTH].rstrip("-_")


def last_box(text: str) -> str:
    r"""Return what the last \boxed{…} of a solution holds; "" where there is none.

    MATH also has a number or a letter behind \boxed without brackets.
    """
    boxes = list(BOX.finditer(text))
    if not boxes:
        return ""
    if sign := boxes[-1]["sign"]:
        return sign
    start = boxes[-1].end()
    depth = 1
    for place in range(start, len(text)):
        sign = text[place]
        escaped = text[place - 1] == "\\"
        depth += (sign == "{" and not escaped) - (sign == "}" and not escaped)
        if not depth:
            return text[start:place].strip()
    return ""


def read_meta(row: Row, *names: str) -> Row:
    """Return the row's values of these fields, which are kept in the task's meta."""
    return {name: row[name] for name in names if row.get(name) is not None}


def _task(prompt: object, answer: Any, meta: Row | None = None, domain: object = None) -> Row:
    task = {"prompt": prompt, "answer": answer, "meta": meta or {}}
    return task | ({"domain": name} if (name := domain_name(domain)) else {})


# -- mathematics -----------------------------------------------------------------------------------


def _is_gsm8k(row: Row) -> bool:
    return (
        isinstance(row.get("question"), str)
        and isinstance(row.get("answer"), str)
        and "####" in row["answer"]
    )


def _gsm8k(row: Row, taking: RowReading) -> Row:
    answers = FINAL.findall(row["answer"]) if isinstance(row.get("answer"), str) else []
    if not answers:
        raise NotThisLayout("answer: must end with #### and the number")
    return _task(require_text(row, "question"), answers[-1].strip(), {"solution": row["answer"]})


def _is_solved(row: Row) -> bool:
    return isinstance(row.get("problem"), str) and isinstance(row.get("solution"), str)


def _is_numina(row: Row) -> bool:
    return _is_solved(row) and ("source" in row or "problem_type" in row or "question_type" in row)


def _is_math(row: Row) -> bool:
    return _is_solved(row) and (
        "answer" in row or "level" in row or "type" in row or "\\boxed" in row["solution"]
    )


def _solved(row: Row, taking: RowReading) -> Row:
    """Take the answer beside the solution, or what is boxed in it.

    Raises NotThisLayout for proofs and lost answers.
    """
    for name in JUDGED:
        if (verdict := row.get(name)) is not None and is_good(verdict) is not True:
            raise NotGood(f"{name}: is {verdict!r}, so the row is not a task with a known answer")
    stored_answer = row.get("answer")
    if isinstance(stored_answer, str) and stored_answer.strip().lower() in NO_ANSWERS:
        raise NotThisLayout(f"answer: {stored_answer!r} cannot be used as a reference answer")
    answer = stored_answer if stored_answer is not None else last_box(row["solution"])
    if answer == "":
        raise NotThisLayout("solution: has no \\boxed answer, and there is no column `answer`")
    meta = read_meta(
        row,
        "solution",
        "level",
        "type",
        "subject",
        "problem_type",
        "question_type",
        "source",
        "unique_id",
    )
    return _task(require_text(row, "problem"), answer, meta)


def _is_deepmath(row: Row) -> bool:
    return has(row, "question", "final_answer")


def _deepmath(row: Row, taking: RowReading) -> Row:
    return _task(
        require_text(row, "question"), row["final_answer"], read_meta(row, "difficulty", "topic")
    )


def _aya(row: Row, taking: RowReading) -> Row:
    meta = read_meta(row, "language", "language_code", "annotation_type")
    return _task(require_text(row, "inputs"), require_text(row, "targets"), meta)


def _is_countdown(row: Row) -> bool:
    numbers = decoded(row.get("nums", row.get("numbers")))
    return (
        parse_number(row.get("target")) is not None
        and isinstance(numbers, list)
        and all(map(is_finite_number, numbers))
        and bool(numbers)
    )


def _whole_where_possible(value: object) -> object:
    """Return the number that a text is, as cells of CSV are; any other value as it is."""
    number = parse_number(value)
    if not isinstance(value, str) or number is None:
        return value
    return int(number) if number == int(number) else number


def _countdown(row: Row, taking: RowReading) -> Row:
    numbers = decoded(row.get("nums", row.get("numbers")))
    target = _whole_where_possible(row["target"])
    assert isinstance(numbers, list)  # by `_is_countdown`
    name = first_text(row, QUESTIONS)
    number_list = ", ".join(map(str, numbers))
    prompt = row[name] if name else COUNTDOWN.format(target=target, numbers=number_list)
    return _task(prompt, {"target": target, "numbers": numbers}, domain="countdown")


# -- libraries -------------------------------------------------------------------------------------


def _is_verl(row: Row) -> bool:
    return has(row, "prompt", "reward_model") and isinstance(decoded(row["reward_model"]), dict)


def _verl(row: Row, taking: RowReading) -> Row:
    model = decoded(row["reward_model"])
    assert isinstance(model, dict)
    if model.get("ground_truth") is None:
        raise NotThisLayout("reward_model.ground_truth: must be the correct answer")
    meta = read_meta(row, "data_source")
    extra = decoded(row.get("extra_info"))
    if isinstance(extra, dict):
        meta["extra_info"] = {key: value for key, value in extra.items() if value is not None}
    prompt = read_prompt_messages(row["prompt"], "prompt", taking)
    truth = model["ground_truth"]
    if isinstance(truth, dict) and truth.keys() == {"target"} and is_texts(truth["target"]):
        truth = list(dict.fromkeys(truth["target"]))  # Search-R1: any of them is right
    return _task(prompt, truth, meta, row.get("ability"))


def _is_verified(row: Row) -> bool:
    return has(row, "prompt", "verification_info") and isinstance(
        decoded(row["verification_info"]), dict
    )


def _verified(row: Row, taking: RowReading) -> Row:
    info = decoded(row["verification_info"])
    assert isinstance(info, dict)
    truth = info.get("ground_truth", info.get("answer"))
    answer = info if truth is None else truth
    meta = read_meta(row, "problem_id", "source", "metadata")
    return _task(row["prompt"], answer, meta, row.get("task_type"))


def _is_environment(row: Row) -> bool:
    """Tell whether the row is of the verifiers package: `info` holds what rewards need."""
    has_prompt = bool(first_text(row, ("prompt", "question")))
    return has_prompt and "info" in row and isinstance(decoded(row["info"]), dict | None)


def _environment(row: Row, taking: RowReading) -> Row:
    info = decoded(row.get("info"))
    answer = row.get("answer")
    if answer in (None, ""):
        if not info:
            raise NotThisLayout(
                "answer: must be the correct answer, unless info contains the data for rewards"
            )
        answer = info
    name = first_text(row, ("prompt", "question"))
    meta = {"info": info} if info else {}
    return _task(read_prompt_messages(row[name], name, taking), answer, meta, row.get("task"))


def _is_orz(row: Row) -> bool:
    """Tell whether the row is a list of two turns, whose columns are the places in it."""
    question = decoded(row.get("0"))
    truth = decoded(row.get("1"))
    return is_message(question) and isinstance(truth, dict) and "ground_truth" in truth


def _orz(row: Row, taking: RowReading) -> Row:
    truth = cast("Row", decoded(row["1"]))["ground_truth"]  # by `_is_orz`
    answer = truth.get("value") if isinstance(truth, dict) else truth
    if answer in (None, ""):
        raise NotThisLayout("1.ground_truth.value: must be the correct answer")
    if isinstance(truth, dict):
        unread_keys = {key for key, value in truth.items() if value is not None} - {"value"}
        taking.dropped.update(f"1.ground_truth.{key}" for key in unread_keys)
    return _task(read_conversation([decoded(row["0"])], "0", taking), answer)


def _is_openrlhf(row: Row) -> bool:
    return is_conversation(row.get("context_messages")) or (
        is_conversation(row.get("input")) and bool(first_text(row, TRUTHS))
    )


def _openrlhf(row: Row, taking: RowReading) -> Row:
    name = "context_messages" if row.get("context_messages") is not None else "input"
    truth = first_text(row, TRUTHS)
    if not truth:
        raise NotThisLayout(
            f"the correct answer is missing; use one of the columns {', '.join(TRUTHS)}"
        )
    return _task(read_conversation(row[name], name, taking), row[truth])


# -- any -------------------------------------------------------------------------------------------

# Lists of right answers, any of which is enough (NQ, WebQuestions, PopQA).
SEVERAL_TRUTHS = ("golden_answers", "gold_answers", "possible_answers", "answers")
TRUTHS = (
    "answer_number",
    "reference_answer",
    "answer",
    "label",
    "ground_truth",
    "gold",
    "gold_answer",
    "expected_answer",
    "final_answer",
    "target",
    "reference",
    "correct_answer",
    "gt",
    "final_decision",
    "answer_val",
    "Final answer",
    "final answer",
    *SEVERAL_TRUTHS,
)
WORDED = (*TRUTHS, "solution", "output", "response", "completion", "result")


def _is_conversation(row: Row) -> bool:
    return bool(first_text(row, ("messages", "conversations"))) and not first_text(row, QUESTIONS)


def _conversation(row: Row, taking: RowReading) -> Row:
    name = first_text(row, ("messages", "conversations"))
    messages = read_conversation(row[name], name, taking)
    is_answered = messages[-1]["role"] == "assistant"
    verdict = next((name for name in LABELS if isinstance(dict.get(row, name), bool)), "")
    if verdict and is_answered and not row[verdict]:
        raise NotGood(f"{verdict}: is false, so the last answer is not the correct one")
    truths = [name for name in TRUTHS if not (is_answered and name == verdict)]
    truth = first_text(row, tuple(truths))
    if not is_answered:
        if not truth:
            raise NotThisLayout(
                f"{name}: ends with the user's message, and the correct answer is missing; "
                f"use one of the columns {', '.join(TRUTHS)}"
            )
        return _task(messages, row[truth])
    prompt, last = split_last_answer(messages, name)
    return _task(prompt, row[truth] if truth else last)


def _is_answered(row: Row) -> bool:
    return bool(first_text(row, QUESTIONS)) and bool(first_text(row, WORDED))


def _read_answered(row: Row, taking: RowReading) -> Row:
    prompt = read_question(row)
    if is_conversation(prompt):
        prompt = read_prompt_messages(prompt, first_text(row, QUESTIONS), taking)
    name = _judged_answer(row) or first_text(row, WORDED)
    answer = row[name]
    if is_conversation(answer) or is_message(decoded(answer)):
        answer = read_answer(decoded(answer), name, taking)
    answers = decoded(answer)
    if name in SEVERAL_TRUTHS and is_texts(answers):
        return _task(prompt, list(dict.fromkeys(answers)))
    return _task(prompt, _accepted_answers(answer))


def _accepted_answers(value: Any) -> Any:
    """Return a verdict in words, and all names of an answer that has several (TriviaQA)."""
    if isinstance(value, bool):
        return ["yes", "true"] if value else ["no", "false"]
    aliases = value.get("aliases") if isinstance(value, dict) else None
    if aliases is None or not is_texts([value.get("value")]) or not is_texts(aliases):
        return value
    return list(dict.fromkeys([value["value"], *aliases]))


def _is_squad(row: Row) -> bool:
    answers = decoded(row.get("answers"))
    return isinstance(row.get("question"), str) and isinstance(answers, dict) and "text" in answers


def _squad(row: Row, taking: RowReading) -> Row:
    """Take all the wordings of the answer, each once."""
    answers = cast("Row", decoded(row["answers"]))  # by `_is_squad`
    if not is_texts(answers["text"]):
        raise NotThisLayout(
            "answers.text: has no answer, so the question cannot be judged; SQuAD 2 has such rows, "
            "which --quarantine leaves out"
        )
    return _task(read_question(row), list(dict.fromkeys(answers["text"])), read_meta(row, "title"))


def _judged_answer(row: Row) -> str:
    """Return the column of an answer that the row marks as good, or "" where it marks none.

    A label that is true or false says whether the answer beside it is good (KTO); without an answer
    the label is itself the answer to a yes-or-no question. Raises NotGood for a bad answer.
    """
    # dict.get: a field that is only looked at still counts as one that is not taken
    label = next((name for name in LABELS if isinstance(dict.get(row, name), bool)), "")
    name = first_text(row, ANSWERS) if label else ""
    if name and not row[label]:
        raise NotGood(f"{label}: is false, so the text in {name} is not the correct answer")
    return name


LIBRARIES = (
    Layout(
        "orz",
        "Open-Reasoner-Zero: a list of the question and its ground_truth",
        _is_orz,
        {TASKS: _orz},
    ),
    Layout(
        "verl",
        "verl: prompt and reward_model.ground_truth",
        _is_verl,
        {TASKS: _verl},
    ),
    Layout(
        "prime",
        "PRIME and SYNTHETIC: prompt and verification_info",
        _is_verified,
        {TASKS: _verified},
    ),
)
SPECIAL = (
    Layout(
        "gsm8k",
        "GSM8K: question, and an answer that ends with ####",
        _is_gsm8k,
        {TASKS: _gsm8k},
    ),
    Layout(
        "numina",
        "NuminaMath: problem, solution and source",
        _is_numina,
        {TASKS: _solved},
    ),
    Layout(
        "math",
        "MATH: problem and solution",
        _is_math,
        {TASKS: _solved},
    ),
    Layout(
        "deepmath",
        "DeepMath: question and final_answer",
        _is_deepmath,
        {TASKS: _deepmath},
    ),
    Layout(
        "squad",
        "SQuAD: question, context and answers.text",
        _is_squad,
        {TASKS: _squad},
    ),
    Layout(
        "countdown",
        "countdown: target and nums",
        _is_countdown,
        {TASKS: _countdown},
    ),
    Layout(
        "verifiers",
        "verifiers: prompt or question, answer and info",
        _is_environment,
        {TASKS: _environment},
    ),
)
GENERAL = (
    Layout(
        "aya-tasks",
        "Aya: inputs and targets; the target is the reference answer",
        is_aya,
        {TASKS: _aya},
    ),
    Layout(
        "openrlhf",
        "OpenRLHF: context_messages or input, and a label",
        _is_openrlhf,
        {TASKS: _openrlhf},
    ),
    Layout(
        "task-conversations",
        (
            "messages (OpenAI, ChatML) or conversations (ShareGPT): the last answer is the "
            "correct one"
        ),
        _is_conversation,
        {TASKS: _conversation},
    ),
    Layout(
        "question",
        "a question and its answer, under any of their usual names (Trinity, OpenRLHF, Alpaca)",
        _is_answered,
        {TASKS: _read_answered},
    ),
)
