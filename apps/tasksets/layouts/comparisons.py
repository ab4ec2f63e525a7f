"""Layouts of rows that compare answers: preferences, and the best answer as a demonstration."""

import itertools
from collections.abc import Callable, Sequence

from apps.tasksets.layouts.answers import QUESTIONS, alpaca_prompt, read_question
from apps.tasksets.layouts.context import with_context
from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    PREFERENCES,
    Layout,
    NotGood,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    has,
    is_finite_number,
    is_objects,
    parse_number,
    pass_over,
    require_text,
)
from apps.tasksets.layouts.conversations import (
    TRANSCRIPT,
    Message,
    decoded,
    is_conversation,
    is_message,
    read_answer,
    read_conversation,
    read_prompt_messages,
    split_last_answer,
    transcript,
    until_asked,
)

SCORES = (
    ("score_chosen", "score_rejected"),
    ("chosen_score", "rejected_score"),
    ("chosen_rating", "rejected_rating"),
    ("rating_chosen", "rating_rejected"),
    ("chosen-rating", "rejected-rating"),
    ("chosen_avg_rating", "rejected_avg_rating"),
)
# What others call the better and the worse answer.
PAIRS = (
    ("chosen", "rejected"),
    ("chosen_response", "rejected_response"),
    ("response_chosen", "response_rejected"),
    ("chosen_answer", "rejected_answer"),
    ("preferred", "dispreferred"),
    ("better", "worse"),
    ("response_j", "response_k"),
    ("chosen", "reject"),
)
BEGUN = ("conversations", "messages", "context", "context_messages", "trajectory")
GOOD_SHARE = 0.5  # of a scale: a best answer that reaches less was not found good


def read_margin(row: Row) -> Row:
    """Return by how much the chosen one is better, where both have a score.

    Raises NotThisLayout where these disagree.
    """
    if row.get("margin") is not None:
        number = parse_number(row["margin"])
        return {"margin": row["margin"] if number is None else number}
    for better, worse in SCORES:
        high = parse_number(row.get(better))
        low = parse_number(row.get(worse))
        if high is not None and low is not None:
            if high < low:
                why = (
                    f"is {high:g}, lower than {worse} ({low:g}), so it is "
                    "unclear which answer is better"
                )
                raise NotThisLayout(f"{better}: {why}")
            return {"margin": float(high - low)}
    return {}


# -- two answers -----------------------------------------------------------------------------------


def _sides(row: Row) -> list[object]:
    return [decoded(row.get("chosen")), decoded(row.get("rejected"))]


def _is_pair_of_conversations(row: Row) -> bool:
    """Tell whether both sides are whole conversations: more than one message each."""
    sides = _sides(row)
    return all(is_conversation(side) or side == [] for side in sides) and any(
        isinstance(side, list) and len(side) > 1 for side in sides
    )


def _pair_of_conversations(row: Row, taking: RowReading) -> Row:
    return _split_conversations(row, lambda side: read_conversation(row[side], side, taking))


def _is_pair_of_transcripts(row: Row) -> bool:
    sides = [row.get("chosen"), row.get("rejected")]
    return not first_text(row, QUESTIONS) and all(
        isinstance(side, str) and TRANSCRIPT.match(side) for side in sides
    )


def _pair_of_transcripts(row: Row, taking: RowReading) -> Row:
    return _split_conversations(row, lambda side: transcript(row[side], side))


def _split_conversations(row: Row, read: Callable[[str], list[Message]]) -> Row:
    """Return the beginning that both conversations share as the prompt, with both last answers."""
    pass_over(
        row, "prompt", "messages"
    )  # both sides begin with the one, and the other is the better side again
    prompt, chosen = split_last_answer(read("chosen"), "chosen")
    other_prompt, rejected = split_last_answer(read("rejected"), "rejected")
    if prompt != other_prompt:
        raise NotThisLayout("rejected: the conversation differs from chosen before the last answer")
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected, **read_margin(row)}


def _is_answer(value: object) -> bool:
    value = decoded(value)
    return (
        isinstance(value, str)
        or is_message(value)
        or (is_conversation(value) and isinstance(value, list) and len(value) == 1)
    )


def _pair_in(row: Row) -> tuple[str, str] | None:
    """Return the columns of the better and the worse answer, under any of their usual names."""
    return next((pair for pair in PAIRS if all(_is_answer(row.get(side)) for side in pair)), None)


def _is_pair(row: Row) -> bool:
    return bool(first_text(row, QUESTIONS)) and _pair_in(row) is not None


def _pair(row: Row, taking: RowReading) -> Row:
    return {"prompt": read_question(row), **_preference_pair(row, taking)}


def _preference_pair(row: Row, taking: RowReading) -> Row:
    better, worse = _pair_in(row) or PAIRS[0]
    chosen = read_answer(row[better], better, taking)
    return {
        "chosen": chosen,
        "rejected": read_answer(row[worse], worse, taking),
        **read_margin(row),
    }


def _is_pair_behind_conversation(row: Row) -> bool:
    column = first_text(row, BEGUN)
    return is_conversation(row.get(column)) and _pair_in(row) is not None


def _pair_behind_conversation(row: Row, taking: RowReading) -> Row:
    column = first_text(row, BEGUN)
    return {
        "prompt": read_conversation(row[column], column, taking),
        **_preference_pair(row, taking),
    }


def _is_openai_pair(row: Row) -> bool:
    prompt = row.get("input")
    sides = (row.get("preferred_output"), row.get("non_preferred_output"))
    return isinstance(prompt, dict) and "messages" in prompt and all(map(_is_answer, sides))


def _openai_pair(row: Row, taking: RowReading) -> Row:
    source = row["input"]
    taking.dropped.update(f"input.{name}" for name in source.keys() - {"messages", "tools"})
    prompt = read_conversation(source["messages"], "input.messages", taking)
    tools = {"tools": source.get("tools")}
    return {
        "prompt": with_context(prompt, tools, frozenset(), taking),
        "chosen": read_answer(row["preferred_output"], "preferred_output", taking),
        "rejected": read_answer(row["non_preferred_output"], "non_preferred_output", taking),
    }


def _is_rejected_response(row: Row) -> bool:
    return is_conversation(row.get("messages")) and isinstance(row.get("rejected_response"), str)


def _rejected_response(row: Row, taking: RowReading) -> Row:
    prompt, chosen = split_last_answer(
        read_conversation(row["messages"], "messages", taking), "messages"
    )
    return {"prompt": prompt, "chosen": chosen, "rejected": row["rejected_response"]}


def _is_alpaca_ranking(row: Row) -> bool:
    """Tell whether two answers stand in one column, the better one first.

    It is LLaMA-Factory's older form.
    """
    output = row.get("output")
    return isinstance(row.get("instruction"), str) and isinstance(output, list) and len(output) == 2


def _alpaca_ranking(row: Row, taking: RowReading) -> Row:
    chosen, rejected = row["output"]
    return {
        "prompt": alpaca_prompt(row),
        "chosen": chosen,
        "rejected": rejected,
        **read_margin(row),
    }


# -- several answers -------------------------------------------------------------------------------


def ordered_pairs(rated: Sequence[tuple[str, float]]) -> list[Row]:
    """Return every two answers of different worth, the better one chosen, with the difference as
    the margin."""
    rows = []
    for (first_answer, first_worth), (second_answer, second_worth) in itertools.combinations(
        rated, 2
    ):
        if first_worth != second_worth and first_answer != second_answer:
            better, worse = (
                (first_answer, second_answer)
                if first_worth > second_worth
                else (second_answer, first_answer)
            )
            rows.append(
                {
                    "chosen": better,
                    "rejected": worse,
                    "margin": abs(float(first_worth - second_worth)),
                }
            )
    return rows


def pairs_for(prompt: object, rated: Sequence[tuple[str, float]], where: str) -> list[Row]:
    rows = [{"prompt": prompt, **row} for row in ordered_pairs(rated)]
    if not rows:
        raise NotThisLayout(f"{where}: no two answers have different ratings")
    return rows


def _is_ultrafeedback(row: Row) -> bool:
    completions = row.get("completions")
    return (
        isinstance(row.get("instruction"), str)
        and is_objects(completions)
        and "response" in completions[0]
    )


# Columns of UltraFeedback's ratings, and the highest of each scale.
SCALES_OF_ULTRAFEEDBACK = {"overall_score": 10, "fine-grained_score": 5}


def _ultrafeedback_rated(row: Row, taking: RowReading) -> tuple[list[tuple[str, float]], int]:
    """Return the answers with their ratings, all of one column, and the highest of its scale."""
    completions = row["completions"]
    columns = [
        name
        for name in SCALES_OF_ULTRAFEEDBACK
        if all(is_finite_number(completion.get(name)) for completion in completions)
    ]
    if not columns:
        unrated = (n for n, completion in enumerate(completions) if not _has_score(completion))
        raise NotThisLayout(f"completions[{next(unrated, 0)}].overall_score: must be a number")
    read = {"response", *SCALES_OF_ULTRAFEEDBACK}
    names = {name for completion in completions for name in completion} - read
    taking.dropped.update(f"completions[].{name}" for name in names)
    name = columns[0]
    rated = [(require_text(answer, "response"), float(answer[name])) for answer in completions]
    return rated, SCALES_OF_ULTRAFEEDBACK[name]


def _has_score(completion: Row) -> bool:
    return is_finite_number(completion.get("overall_score"))


def _ultrafeedback(row: Row, taking: RowReading) -> list[Row]:
    rated, _ = _ultrafeedback_rated(row, taking)
    return pairs_for(row["instruction"], rated, "completions")


def _best_of_ultrafeedback(row: Row, taking: RowReading) -> Row:
    rated, highest = _ultrafeedback_rated(row, taking)
    taking.dropped.add("completions that are not the best")
    best, score = max(rated, key=lambda rating: rating[1])
    bound = GOOD_SHARE * highest if taking.min_rating is None else taking.min_rating
    if score < bound:
        raise NotGood(
            f"completions: the best is rated {score:g} of {highest}, below {bound:g}, so it is "
            "not a demonstration"
        )
    return {"prompt": row["instruction"], "answer": best}


def _is_nectar(row: Row) -> bool:
    answers = row.get("answers")
    return (
        isinstance(row.get("prompt"), str)
        and is_objects(answers)
        and {"answer", "rank"} <= answers[0].keys()
    )


def _nectar_rated(row: Row, taking: RowReading) -> tuple[list[Message], list[tuple[str, float]]]:
    if TRANSCRIPT.match(row["prompt"]):
        prompt = until_asked(transcript(row["prompt"], "prompt"), "prompt")
    else:
        prompt = [{"role": "user", "content": row["prompt"]}]
    rated = []
    for number, answer in enumerate(row["answers"]):
        if not is_finite_number(answer.get("rank")):
            raise NotThisLayout(f"answers[{number}].rank: must be a number, 1 for the best")
        rated.append((require_text(answer, "answer").strip(), -float(answer["rank"])))
        taking.dropped.update(f"answers[].{name}" for name in answer.keys() - {"answer", "rank"})
    return prompt, rated


def _nectar(row: Row, taking: RowReading) -> list[Row]:
    return pairs_for(*_nectar_rated(row, taking), "answers")


def _best_of_nectar(row: Row, taking: RowReading) -> Row:
    taking.dropped.add("answers with a rank other than 1")
    prompt, rated = _nectar_rated(row, taking)
    return {"prompt": prompt, "answer": max(rated, key=lambda rating: rating[1])[0]}


# -- Stanford's and NVIDIA's comparisons -----------------------------------------------------------


def _is_shp(row: Row) -> bool:
    return has(row, "history", "human_ref_A", "human_ref_B", "labels")


def _shp(row: Row, taking: RowReading) -> Row:
    preferred = parse_number(row["labels"])
    if preferred not in (0, 1):
        raise NotThisLayout("labels: must be 1 if A is preferred, 0 if B is preferred")
    names = ("human_ref_A", "human_ref_B") if preferred == 1 else ("human_ref_B", "human_ref_A")
    chosen, rejected = (require_text(row, name) for name in names)
    return {"prompt": require_text(row, "history"), "chosen": chosen, "rejected": rejected}


def _is_arena(row: Row) -> bool:
    sides = (row.get("conversation_a"), row.get("conversation_b"))
    return all(map(is_conversation, sides)) and isinstance(row.get("winner"), str)


def _arena(row: Row, taking: RowReading) -> Row:
    """Take Chatbot Arena's two conversations with the same questions, and who won."""
    sides = {"model_a": "conversation_a", "model_b": "conversation_b"}
    better = sides.get(row["winner"])
    if better is None:
        raise NotThisLayout(f"winner: is {row['winner']!r}, so neither answer is preferred")
    worse = "conversation_b" if better == "conversation_a" else "conversation_a"
    prompt, chosen = split_last_answer(read_conversation(row[better], better, taking), better)
    other_prompt, rejected = split_last_answer(read_conversation(row[worse], worse, taking), worse)
    if prompt != other_prompt:
        raise NotThisLayout(f"{worse}: differs from {better} before the last answer")
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected}


STRENGTHS = ("preference_strength", "overall_preference")


def _is_two_responses(row: Row) -> bool:
    responses = has(row, "response_1", "response_2") or has(row, "response1", "response2")
    return responses and any(parse_number(row.get(name)) is not None for name in STRENGTHS)


def _two_responses(row: Row, taking: RowReading) -> Row:
    """Take HelpSteer's preference, from -3 for the first response to 3 for the second."""
    name = next(name for name in STRENGTHS if parse_number(row.get(name)) is not None)
    strength = parse_number(row[name])
    if not strength:
        raise NotThisLayout(f"{name}: is 0, so neither response is preferred")
    first, second = (
        ("response_1", "response_2") if "response_1" in row else ("response1", "response2")
    )
    better, worse = (first, second) if strength < 0 else (second, first)
    prompt = row["context"] if row.get("context") is not None else row.get("prompt")
    return {
        "prompt": read_prompt_messages(
            prompt, "context" if row.get("context") is not None else "prompt", taking
        ),
        "chosen": require_text(row, better),
        "rejected": require_text(row, worse),
        "margin": float(abs(strength)),
    }


# Columns of a better answer and of a worse one, behind the conversation in `context`.
EDITS = (
    ("edited_response", "original_response"),
    ("good_edited_response", "bad_edited_response"),
)


def _is_edited(row: Row) -> bool:
    return "context" in row and any(has(row, *names) for names in EDITS)


def _read_edited(row: Row, taking: RowReading) -> Row:
    better, worse = next(names for names in EDITS if has(row, *names))
    return {
        "prompt": read_prompt_messages(row["context"], "context", taking),
        "chosen": require_text(row, better),
        "rejected": require_text(row, worse),
    }


def _edit_shown(row: Row, taking: RowReading) -> Row:
    better, worse = next(names for names in EDITS if has(row, *names))
    pass_over(row, worse)
    prompt = read_prompt_messages(row["context"], "context", taking)
    return {"prompt": prompt, "answer": require_text(row, better)}


# Two answers, and the column that names the better one by its number, its letter or its name.
SIDES = (
    ("response_0", "response_1"),
    ("response_a", "response_b"),
    ("answer_0", "answer_1"),
    ("answer_a", "answer_b"),
)
PICKS = ("better_response_id", "winner", "preferred", "preference", "choice")


def _is_picked_response(row: Row) -> bool:
    is_asked = bool(first_text(row, QUESTIONS))
    return is_asked and any(has(row, *sides) for sides in SIDES) and bool(_pick(row))


def _pick(row: Row) -> str:
    """Return the column of the better answer; for two scores, the column of the first."""
    if any(has(row, *scores) for scores in (("score_0", "score_1"), ("score_a", "score_b"))):
        return "score_0" if "score_0" in row else "score_a"
    if dict.get(row, "label") in ("A>B", "B>A", "A=B"):  # JudgeBench
        return "label"
    return next((name for name in PICKS if type(row.get(name)) in (str, int)), "")


def _picked_response(row: Row, taking: RowReading) -> Row:
    """Read the two answers of PKU-SafeRLHF or WebGPT, and which one people preferred."""
    sides = next(sides for sides in SIDES if has(row, *sides))
    name = _pick(row)
    if name.startswith("score_"):
        numbers = [parse_number(row[f"score_{side[-1]}"]) for side in sides]
        scores = [score for score in numbers if score is not None]
        if len(scores) < len(numbers):
            raise NotThisLayout(f"{name}: must be a number")
        better = None if scores[0] == scores[1] else sides[int(scores[1] > scores[0])]
    else:
        picked_side = str(row[name]).strip().lower().removesuffix(">b").removesuffix(">a")
        better = next(
            (side for side in sides if picked_side in (side, side[-1], f"model_{side[-1]}")), ""
        )
    if not better:
        raise NotThisLayout(f"{name}: is {row[name]!r}, so neither answer is preferred")
    worse = sides[1 - sides.index(better)]
    question = read_question(row)
    question = (
        question.get("full_text")
        if isinstance(question, dict) and "full_text" in question
        else question
    )
    return {
        "prompt": read_prompt_messages(question, "prompt", taking),
        "chosen": require_text(row, better),
        "rejected": require_text(row, worse),
    }


SPECIAL = (
    Layout(
        "ultrafeedback",
        "UltraFeedback: instruction and rated completions",
        _is_ultrafeedback,
        {PREFERENCES: _ultrafeedback, DEMONSTRATIONS: _best_of_ultrafeedback},
    ),
    Layout(
        "nectar",
        "Nectar: prompt and ranked answers",
        _is_nectar,
        {PREFERENCES: _nectar, DEMONSTRATIONS: _best_of_nectar},
    ),
    Layout(
        "shp",
        "SHP: history, human_ref_A, human_ref_B and labels",
        _is_shp,
        {PREFERENCES: _shp},
    ),
    Layout(
        "helpsteer-preference",
        "HelpSteer 2 and 3: two responses and a preference from -3 to 3",
        _is_two_responses,
        {PREFERENCES: _two_responses},
    ),
    Layout(
        "helpsteer-edits",
        "HelpSteer 3: context, original_response and edited_response",
        _is_edited,
        {PREFERENCES: _read_edited, DEMONSTRATIONS: _edit_shown},
    ),
    Layout(
        "arena",
        "Chatbot Arena: conversation_a, conversation_b and winner",
        _is_arena,
        {PREFERENCES: _arena},
    ),
    Layout(
        "picked-response",
        "two answers and which is better (PKU-SafeRLHF, WebGPT comparisons)",
        _is_picked_response,
        {PREFERENCES: _picked_response},
    ),
    Layout(
        "pairs-of-conversations",
        "pairs of conversations (UltraFeedback binarized, Argilla DPO mix, TRL)",
        _is_pair_of_conversations,
        {PREFERENCES: _pair_of_conversations},
    ),
    Layout(
        "hh-rlhf",
        "HH-RLHF: pairs of transcripts",
        _is_pair_of_transcripts,
        {PREFERENCES: _pair_of_transcripts},
    ),
    Layout(
        "pair-behind-conversation",
        "DPO (LLaMA-Factory): conversations or messages, then chosen and rejected",
        _is_pair_behind_conversation,
        {PREFERENCES: _pair_behind_conversation},
    ),
    Layout(
        "openai-preferences",
        "OpenAI: input.messages, preferred_output and non_preferred_output",
        _is_openai_pair,
        {PREFERENCES: _openai_pair},
    ),
    Layout(
        "rejected-response",
        "SWIFT: messages and rejected_response",
        _is_rejected_response,
        {PREFERENCES: _rejected_response},
    ),
    Layout(
        "alpaca-ranking",
        "DPO (LLaMA-Factory): instruction, input, and two answers in output",
        _is_alpaca_ranking,
        {PREFERENCES: _alpaca_ranking},
    ),
)
GENERAL = (
    Layout(
        "pair",
        "DPO (TRL, OpenRLHF, Intel Orca): a question, chosen and rejected",
        _is_pair,
        {PREFERENCES: _pair},
    ),
)
