"""Exports of annotation tools: the fields that people saw, and their judgements.

Argilla and Label Studio.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.tasksets.layouts.answers import QUESTIONS
from apps.tasksets.layouts.comparisons import ordered_pairs
from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    PREFERENCES,
    THUMBS,
    Gathering,
    Layout,
    NotGood,
    NotThisLayout,
    Reader,
    Row,
    RowReading,
    first_text,
    has,
    is_finite_number,
    is_objects,
)
from apps.tasksets.layouts.conversations import decoded, read_answer, read_prompt_messages
from apps.tasksets.layouts.quality import is_good

ASKED = (*QUESTIONS, "context", "chat", "messages", "dialogue", "text")
ANSWER = re.compile(
    r"(?:model|text)?[-_ ]?"
    r"(?:response|answer|completion|generation|output|reply|chosen|rejected)s?[-_ ]?(\w*)"
)
CORRECTION = re.compile(r"correct|rewrit|edit|improv|better|revis|fixed|demonstration")
OF_RESPONSE = frozenset({"user_id", "value", "status"})
SIDES = {"left": 0, "right": 1, "a": 0, "b": 1, "1": 0, "2": 1, "first": 0, "second": 1}


@dataclass(frozen=True)
class Judgement:
    """Answer of one person in one field: a verdict, a rating, a ranking, a choice or a text."""

    field: str
    value: Any
    author: str | None


@dataclass(frozen=True)
class Record:
    """Fields that people were shown, by name, and their judgements."""

    question: object
    answers: dict[str, str]
    judgements: list[Judgement]


# -- what follows from a judgement -----------------------------------------------------------------


def _preferences(record: Record) -> Iterator[Row]:
    for judgement in record.judgements:
        worth = _score_answers(judgement, record.answers)
        for pair in ordered_pairs([(record.answers[name], value) for name, value in worth.items()]):
            yield {**pair, "margin": None, **_author_of(judgement)}
        original = next(iter(record.answers.values()), "")
        if _is_correction(judgement) and original and judgement.value != original:
            yield {"chosen": judgement.value, "rejected": original, **_author_of(judgement)}


def _score_answers(judgement: Judgement, answers: dict[str, str]) -> dict[str, float]:
    """Return how good each answer is by this judgement; nothing where it does not compare
    answers."""
    if is_objects(judgement.value) and all(
        _is_ranked(ranking, answers) for ranking in judgement.value
    ):
        return {ranking["value"]: -float(ranking["rank"]) for ranking in judgement.value}
    picked = _picked_answer(judgement.value, list(answers))
    return {name: float(name == picked) for name in answers} if picked else {}


def _is_ranked(ranking: Row, answers: dict[str, str]) -> bool:
    name = ranking.get("value")
    return isinstance(name, str) and name in answers and is_finite_number(ranking.get("rank"))


def _picked_answer(value: object, names: list[str]) -> str:
    """Return the answer that a pick names: by its field, or by its side or number."""
    if not isinstance(value, str) or len(names) < 2:
        return ""
    plain = re.sub(r"[-_ ]", "", value.lower())
    by_name = next((name for name in names if re.sub(r"[-_ ]", "", name.lower()) == plain), "")
    if by_name:
        return by_name
    ends = ANSWER.fullmatch(value.lower())
    side = SIDES.get(ends[1] if ends else plain)
    return names[side] if side is not None else ""


def _thumbs(record: Record, min_rating: float | None) -> Iterator[Row]:
    if len(record.answers) != 1:
        return
    completion = next(iter(record.answers.values()))
    for judgement in record.judgements:
        verdict = _verdict(judgement, min_rating)
        if verdict is not None:
            yield {"completion": completion, "label": verdict, **_author_of(judgement)}


def _verdict(judgement: Judgement, min_rating: float | None) -> bool | None:
    if is_finite_number(judgement.value):
        if min_rating is None:
            raise NotThisLayout(
                f"{judgement.field}: the rating {judgement.value:g} has an unknown scale; set the "
                "lowest rating of a good answer (at least)"
            )
        return judgement.value >= min_rating
    return is_good(judgement.value)


def _demonstrations(record: Record, min_rating: float | None) -> Iterator[Row]:
    """Yield what people wrote, and the answer that somebody found good and nobody bad, or that
    everybody preferred."""
    for judgement in record.judgements:
        if _is_correction(judgement):
            yield {"answer": judgement.value, **_author_of(judgement)}
    if len(record.answers) == 1:
        verdicts = [row["label"] for row in _thumbs(record, min_rating)]
        if verdicts and all(verdicts):
            yield {"answer": next(iter(record.answers.values()))}
        elif verdicts and not any(_is_correction(judgement) for judgement in record.judgements):
            raise NotGood("people rated this answer as bad, so it is not a demonstration")
        return
    worths = [
        worth
        for judgement in record.judgements
        if (worth := _score_answers(judgement, record.answers))
    ]
    best = {max(worth, key=worth.__getitem__) for worth in worths}
    if len(best) == 1:
        yield {"answer": record.answers[best.pop()]}


def _is_correction(judgement: Judgement) -> bool:
    return (
        isinstance(judgement.value, str)
        and bool(judgement.value.strip())
        and CORRECTION.search(judgement.field.lower()) is not None
    )


def _author_of(judgement: Judgement) -> Row:
    return {"author": judgement.author} if judgement.author else {}


def _read(record: Record, kind: str, taking: RowReading) -> list[Row]:
    prompt = read_prompt_messages(record.question, "prompt", taking)
    annotations = {
        PREFERENCES: lambda: _preferences(record),
        THUMBS: lambda: _thumbs(record, taking.min_rating),
        DEMONSTRATIONS: lambda: _demonstrations(record, taking.min_rating),
    }[kind]()
    rows = [{"prompt": prompt, **row} for row in annotations]
    if not rows:
        raise NotThisLayout(f"contains no annotation that is one of {kind}")
    return rows


def _record(fields: Row, judgements: list[Judgement], taking: RowReading) -> Record:
    question = first_text(fields, ASKED)
    if not question:
        raise NotThisLayout(
            f"the prompt is missing; use one of the fields {', '.join(ASKED)}; found "
            f"{', '.join(sorted(fields)[:10])}"
        )
    names = [
        name
        for name in fields
        if name != question and fields[name] is not None and ANSWER.fullmatch(name.lower())
    ]
    answers: dict[str, str] = {}
    for name in sorted(names):
        answers |= _answers_in(fields[name], name, taking)
    taking.dropped.update(f"the field {name}" for name in fields.keys() - {*names, question})
    return Record(fields[question], answers, judgements)


def _answers_in(value: object, name: str, taking: RowReading) -> dict[str, str]:
    """Return the answer of a field by its name.

    The answers of a list that people ranked are named by their ids.
    """
    if not is_objects(value) or not all(
        "id" in answer and "role" not in answer for answer in value
    ):
        return {name: read_answer(value, name, taking)}
    answers = {
        str(answer["id"]): answer.get("body", answer.get("text", answer.get("html")))
        for answer in value
    }
    texts = {name: text for name, text in answers.items() if isinstance(text, str) and text}
    if len(texts) < len(answers):
        raise NotThisLayout(f"{name}: must be text, or a list of objects with id and body")
    return texts


# -- Argilla ---------------------------------------------------------------------------------------


def _is_argilla(row: Row) -> bool:
    fields = row.get("fields")
    responses = row.get("responses")
    return isinstance(fields, dict) and isinstance(responses, dict | list)


def _argilla(row: Row, taking: RowReading) -> Record:
    return _record(row["fields"], list(_submitted_responses(row["responses"])), taking)


def _submitted_responses(responses: dict | list) -> Iterator[Judgement]:
    """Yield what was submitted: {question: [{value, user_id}]}, or [{user_id, values: {question:
    {value}}}] of older versions."""
    if isinstance(responses, dict):
        for name, response in responses.items():
            answers = response if isinstance(response, list) else []
            for number, answer in enumerate(answers):
                answer = _object(answer, f"responses.{name}[{number}]")
                if answer.get("status", "submitted") == "submitted":
                    yield Judgement(name, answer.get("value"), _name(answer.get("user_id")))
        return
    for record in responses:
        if not isinstance(record, dict) or record.get("status", "submitted") != "submitted":
            continue
        values = _object(record.get("values") or {}, "responses[].values")
        for name, response in values.items():
            value = response.get("value") if isinstance(response, dict) else response
            yield Judgement(name, value, _name(record.get("user_id")))


def _object(value: object, place: str) -> Row:
    """Return an object of an export. Raises NotThisLayout for anything else."""
    if not isinstance(value, dict):
        raise NotThisLayout(f"{place}: must be an object, not {str(value)[:40]!r}")
    return value


def _list(value: object, place: str) -> list[Any]:
    """Return a list of an export, [] for null. Raises NotThisLayout for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise NotThisLayout(f"{place}: must be a list, not {str(value)[:40]!r}")
    return value


def _is_flat_argilla(row: Row) -> bool:
    is_said = any(name.endswith(".responses") or _are_responses(row[name]) for name in dict(row))
    return is_said and bool(first_text(row, ASKED))


def _are_responses(value: object) -> bool:
    """Tell whether a column holds the responses of people, as Argilla 1 exports them."""
    # Tables leave out what is null, such as the value of a response that was discarded.
    return (
        is_objects(value)
        and all(response.keys() <= OF_RESPONSE for response in value)
        and any("value" in response and "user_id" in response for response in value)
    )


def _flat_argilla(row: Row, taking: RowReading) -> Record:
    """Read the columns of one of Argilla's exports to `datasets`.

    They are `question.responses`, `.responses.users` and `.responses.status`, or Argilla 1's lists
    of responses.
    """
    judgements = []
    names = [name.removesuffix(".responses") for name in row if name.endswith(".responses")]
    for name in names:
        column = f"{name}.responses"
        values = _list(row[column], column)
        users = _list(row.get(f"{column}.users"), f"{column}.users") or [None] * len(values)
        states = _list(row.get(f"{column}.status"), f"{column}.status")
        states = states or ["submitted"] * len(values)
        for value, user, state in zip(values, users, states, strict=False):
            if state == "submitted":
                judgements.append(Judgement(name, value, _name(user)))
    for name in [name for name in row if _are_responses(dict.get(row, name))]:
        judgements += list(_submitted_responses({name: row[name]}))
    fields = {
        name: row[name]
        for name in row
        if "." not in name and (name in ASKED or ANSWER.fullmatch(name.lower()))
    }
    return _record(fields, judgements, taking)


# -- Label Studio ----------------------------------------------------------------------------------


def _is_label_studio(row: Row) -> bool:
    return isinstance(row.get("data"), dict) and isinstance(row.get("annotations"), list)


def _label_studio(row: Row, taking: RowReading) -> Record:
    judgements: list[Judgement] = []
    for annotation in row["annotations"]:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            taking.dropped.add("annotations that were cancelled")
            continue
        for result in _list(annotation.get("result"), "annotations[].result"):
            result = _object(result, "annotations[].result[]")
            judgements += _result(result, _annotator(annotation.get("completed_by")), taking)
    return _record(row["data"], judgements, taking)


def _result(result: Row, author: str | None, taking: RowReading) -> Iterator[Judgement]:
    field = str(result.get("from_name") or "")
    value = _object(result.get("value") or {}, "annotations[].result[].value")
    match result.get("type"):
        case "pairwise":
            yield Judgement(field, value.get("selected"), author)
        case "rating":
            yield Judgement(field, value.get("rating"), author)
        case "number":
            yield Judgement(field, value.get("number"), author)
        case "ranker":
            yield from _ranked(field, value.get("ranker"), author)
        case "choices":
            for choice in _list(value.get("choices"), f"{field}.choices"):
                yield Judgement(field, choice, author)
        case "textarea":
            texts = value.get("text") or []
            if not isinstance(texts, str):
                texts = "\n".join(map(str, _list(texts, f"{field}.text")))
            yield Judgement(f"{field} (rewrite)", texts, author)  # a text of a person's own
        case kind:
            taking.dropped.add(f"annotations of the type {kind}")


def _ranked(field: str, ranker: object, author: str | None) -> Iterator[Judgement]:
    """Yield an order of answers by their ids; several lists only sort answers into kinds."""
    orders = [ids for ids in ranker.values() if ids] if isinstance(ranker, dict) else []
    if len(orders) == 1:
        ranks = [
            {"value": str(answer_id), "rank": rank}
            for rank, answer_id in enumerate(_list(orders[0], field), start=1)
        ]
        yield Judgement(field, ranks, author)


# JSON_MIN and CSV: one annotation a row, the task's fields beside the annotator's.
BOOKKEEPING = frozenset(
    {
        "id",
        "annotator",
        "annotation_id",
        "created_at",
        "updated_at",
        "lead_time",
        "was_cancelled",
        "agreement",
    }
)
TYPES = {"selected": "pairwise", "rating": "rating", "number": "number", "text": "textarea"}


def _is_label_studio_row(row: Row) -> bool:
    return has(row, "annotation_id", "annotator") and {"created_at", "lead_time"} <= row.keys()


def _key(row: Row) -> Hashable:
    return repr(row.get("id", row["annotation_id"]))


def _task_with_annotations(rows: Sequence[Row]) -> Row:
    """Return the rows of one task as Label Studio's JSON has them."""
    first = rows[0]
    data = {name: decoded(first[name]) for name in first if _is_shown(first, name)}
    annotations = [_annotation(row, data) for row in rows]
    answer_columns = [name for name in data if ANSWER.fullmatch(name.lower())]
    if len(answer_columns) == 1 and not any(annotation["result"] for annotation in annotations):
        name = answer_columns[0]  # nobody judged the answer: the annotators wrote it
        texts = [row.get(name) or "" for row in rows]
        data.pop(name)
        for annotation, text in zip(annotations, texts, strict=True):
            annotation["result"] = [
                {"from_name": name, "type": "textarea", "value": {"text": [text]}}
            ]
    return {"data": data, "annotations": annotations}


def _is_shown(row: Row, name: str) -> bool:
    """Tell whether people were shown this column; the other columns hold their judgements."""
    is_known_name = name in ASKED or ANSWER.fullmatch(name.lower()) is not None
    return is_known_name and row[name] is not None and name not in BOOKKEEPING


def _annotation(row: Row, data: Mapping[str, Any]) -> Row:
    annotations = [name for name in row if name not in data and name not in BOOKKEEPING]
    results = [result for name in annotations for result in _results(name, decoded(row[name]))]
    annotator = row["annotator"]
    return {
        "completed_by": int(annotator)
        if isinstance(annotator, str) and annotator.isdecimal()
        else annotator,
        "was_cancelled": str(row.get("was_cancelled")).lower() == "true",
        "result": results,
    }


def _results(name: str, value: object) -> list[Row]:
    """Return the results in one column, which holds a text, an object, or a list of these."""
    if isinstance(value, str):
        is_written = CORRECTION.search(name.lower()) is not None
        value = {"text": [value]} if is_written else {"choices": [value]}
    if isinstance(value, dict):
        value = [value]
    if not is_objects(value):
        return []
    results = []
    for result in value:
        kind = next((TYPES.get(key, key) for key in result if isinstance(key, str)), "")
        results.append({"from_name": name, "type": kind, "value": result})
    return results


def _annotator(completed_by: object) -> str | None:
    if isinstance(completed_by, dict):
        return _name(
            completed_by.get("email") or completed_by.get("username") or completed_by.get("id")
        )
    return f"annotator-{completed_by}" if type(completed_by) is int else _name(completed_by)


def _name(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _layout(
    name: str,
    title: str,
    matches: Callable[[Row], bool],
    record: Callable[[Row, RowReading], Record],
    gathering: Gathering | None = None,
) -> Layout:
    def reader(kind: str) -> Reader:
        return lambda row, taking: _read(record(row, taking), kind, taking)

    reads = {kind: reader(kind) for kind in (PREFERENCES, THUMBS, DEMONSTRATIONS)}
    return Layout(name, title, matches, reads, gathering=gathering)


LAYOUTS = (
    _layout("argilla", "Argilla: fields and responses", _is_argilla, _argilla),
    _layout(
        "argilla-columns",
        "Argilla, exported to datasets: fields and question.responses",
        _is_flat_argilla,
        _flat_argilla,
    ),
    _layout("label-studio", "Label Studio: data and annotations", _is_label_studio, _label_studio),
    _layout(
        "label-studio-rows",
        "Label Studio, exported as JSON_MIN or CSV: an annotation a row",
        _is_label_studio_row,
        _label_studio,
        Gathering(_key, _task_with_annotations, "label-studio"),
    ),
)
