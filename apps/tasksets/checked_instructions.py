"""Read instructions that a program checks (IFEval, Tulu's RLVR mix) into one form.

    {"instructions": [{"id": "punctuation:no_comma", "kwargs": {}}]}

`normal_form` is a pure function of a row, or of the answer in one. What it returns is what the
scorer `instructions` judges by, and what an import stores.
"""

from collections.abc import Mapping
from typing import Any

from apps.accounts import strict_json

Row = Mapping[str, Any]
MAX_INSTRUCTIONS = 50  # instructions of a task
MAX_NUMBER = 1_000_000  # of a number
MAX_TEXT_LENGTH = 20_000  # characters of a text
RELATIONS = ("at least", "less than", "at most", "around", "exactly", "more than")


class BadInstructions(ValueError):
    """Raised for instructions that cannot be checked; the message names the field."""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT_LENGTH


def _is_texts(value: object) -> bool:
    return (
        isinstance(value, list) and 0 < len(value) <= MAX_INSTRUCTIONS and all(map(_is_text, value))
    )


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MAX_NUMBER and value == int(value)


def _is_relation(value: object) -> bool:
    return value in RELATIONS


TEXT = (_is_text, "must be text that is not empty")
TEXTS = (_is_texts, f"must be a list of 1 to {MAX_INSTRUCTIONS} texts")
COUNT = (_is_count, f"must be a whole number from 0 to {MAX_NUMBER}")
RELATION = (_is_relation, f"must be one of {', '.join(RELATIONS)}")

# What each check must be told.
FIELDS: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "keywords:existence": {"keywords": TEXTS},
    "keywords:frequency": {"keyword": TEXT, "frequency": COUNT, "relation": RELATION},
    "keywords:forbidden_words": {"forbidden_words": TEXTS},
    "keywords:letter_frequency": {
        "letter": TEXT,
        "let_frequency": COUNT,
        "let_relation": RELATION,
    },
    "language:response_language": {"language": TEXT},
    "length_constraints:number_sentences": {"num_sentences": COUNT, "relation": RELATION},
    "length_constraints:number_paragraphs": {"num_paragraphs": COUNT},
    "length_constraints:number_words": {"num_words": COUNT, "relation": RELATION},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": COUNT,
        "nth_paragraph": COUNT,
        "first_word": TEXT,
    },
    "detectable_content:number_placeholders": {"num_placeholders": COUNT},
    "detectable_content:postscript": {"postscript_marker": TEXT},
    "detectable_format:number_bullet_lists": {"num_bullets": COUNT},
    "detectable_format:constrained_response": {},
    "detectable_format:number_highlighted_sections": {"num_highlights": COUNT},
    "detectable_format:multiple_sections": {"section_spliter": TEXT, "num_sections": COUNT},
    "detectable_format:json_format": {},
    "detectable_format:title": {},
    "combination:two_responses": {},
    "combination:repeat_prompt": {"prompt_to_repeat": TEXT},
    "startend:end_checker": {"end_phrase": TEXT},
    "startend:quotation": {},
    "change_case:capital_word_frequency": {
        "capital_frequency": COUNT,
        "capital_relation": RELATION,
    },
    "change_case:english_capital": {},
    "change_case:english_lowercase": {},
    "punctuation:no_comma": {},
}
# Texts that stand in the place of those of IFEval, where a set says which are allowed.
OPTIONAL: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "detectable_format:constrained_response": {"options": TEXTS},
}
# The names of the same checks in Tulu's RLVR mix, with those of what they are told.
OF_TULU: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "verify_keywords": ("keywords:existence", {"keyword_list": "keywords"}),
    "verify_keyword_frequency": (
        "keywords:frequency",
        {"word": "keyword", "N": "frequency", "": "relation"},
    ),
    "validate_forbidden_words": (
        "keywords:forbidden_words",
        {"forbidden_words": "forbidden_words"},
    ),
    "verify_letter_frequency": (
        "keywords:letter_frequency",
        {"letter": "letter", "N": "let_frequency", "": "let_relation"},
    ),
    "validate_response_language": ("language:response_language", {"language": "language"}),
    "verify_paragraph_count": (
        "length_constraints:number_paragraphs",
        {"N": "num_paragraphs"},
    ),
    "validate_word_constraint": (
        "length_constraints:number_words",
        {"N": "num_words", "quantifier": "relation"},
    ),
    "verify_sentence_constraint": (
        "length_constraints:number_sentences",
        {"N": "num_sentences", "quantifier": "relation"},
    ),
    "validate_paragraphs": (
        "length_constraints:nth_paragraph_first_word",
        {"N": "num_paragraphs", "i": "nth_paragraph", "first_word": "first_word"},
    ),
    "verify_postscript": (
        "detectable_content:postscript",
        {"postscript_marker": "postscript_marker"},
    ),
    "validate_placeholders": (
        "detectable_content:number_placeholders",
        {"N": "num_placeholders"},
    ),
    "verify_bullet_points": ("detectable_format:number_bullet_lists", {"N": "num_bullets"}),
    "validate_title": ("detectable_format:title", {}),
    "validate_choice": ("detectable_format:constrained_response", {"options": "options"}),
    "validate_highlighted_sections": (
        "detectable_format:number_highlighted_sections",
        {"N": "num_highlights"},
    ),
    "validate_sections": (
        "detectable_format:multiple_sections",
        {"N": "num_sections", "section_splitter": "section_spliter"},
    ),
    "validate_json_format": ("detectable_format:json_format", {}),
    "validate_repeat_prompt": (
        "combination:repeat_prompt",
        {"original_prompt": "prompt_to_repeat"},
    ),
    "validate_two_responses": ("combination:two_responses", {}),
    "validate_uppercase": ("change_case:english_capital", {}),
    "validate_lowercase": ("change_case:english_lowercase", {}),
    "validate_frequency_capital_words": (
        "change_case:capital_word_frequency",
        {"N": "capital_frequency", "quantifier": "capital_relation"},
    ),
    "validate_end": ("startend:end_checker", {"end_phrase": "end_phrase"}),
    "validate_quotation": ("startend:quotation", {}),
    "validate_no_commas": ("punctuation:no_comma", {}),
}
WHERE = ("instructions", "instruction_id_list", "ground_truth")


def normal_form(row: Row) -> list[dict[str, Any]] | None:
    """Return the row's instructions in the one form; None where it has none.

    Raises BadInstructions for an unknown check, by its name, and for one that lacks something.
    """
    if row.get("instructions") is not None and isinstance(_decoded(row["instructions"]), list):
        return _checked(_decoded(row["instructions"]), "instructions")
    if row.get("instruction_id_list") is not None:
        return _paired(row, "instruction_id_list", "kwargs", "")
    truth = _decoded(row.get("ground_truth"))
    while isinstance(truth, list) and truth:  # of one object, also as JSON in a list of texts
        truth = _decoded(truth[0])
    if isinstance(truth, dict) and "func_name" in truth:
        return _checked([_read_tulu(truth)], "ground_truth")
    if isinstance(truth, dict) and "instruction_id" in truth:
        return _paired(truth, "instruction_id", "kwargs", "ground_truth.")
    return None


def _decoded(value: object) -> object:
    """Return what a text holds as JSON, as tables without types have it; else the value itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return strict_json.decode_json(value)
    except strict_json.NotStrictJson:
        return value


def _paired(row: Row, ids: str, arguments: str, at: str) -> list[dict[str, Any]]:
    """Read a list of names, and a list beside it with the arguments of each."""
    names = _decoded(row[ids])
    kwargs_of_checks = _decoded(row.get(arguments)) or []
    if not isinstance(names, list) or not isinstance(kwargs_of_checks, list):
        raise BadInstructions(f"{at}{ids}, {arguments}: must be lists")
    kwargs_of_checks = kwargs_of_checks or [{}] * len(names)
    if len(kwargs_of_checks) != len(names):
        raise BadInstructions(f"{at}{arguments}: must have one object for each of {ids}")
    pairs = zip(names, map(_decoded, kwargs_of_checks), strict=True)
    return _checked(
        [{"id": name, "kwargs": kwargs or {}} for name, kwargs in pairs], f"{at}{arguments}"
    )


def _read_tulu(truth: Row) -> dict[str, Any]:
    name = str(truth["func_name"])
    if name not in OF_TULU:
        raise BadInstructions(f"ground_truth.func_name: {name!r} is a check that is not known")
    check, fields = OF_TULU[name]
    arguments = {
        argument: "exactly" if not field else truth.get(field) for field, argument in fields.items()
    }
    if check == "language:response_language" and arguments["language"] == "unknown":
        raise BadInstructions("ground_truth.language: is unknown")
    return {"id": check, "kwargs": arguments}


def _checked(instructions: Any, field: str) -> list[dict[str, Any]]:
    """Return the instructions, each with exactly the arguments that its check needs."""
    if not instructions or len(instructions) > MAX_INSTRUCTIONS:
        raise BadInstructions(f"{field}: must have 1 to {MAX_INSTRUCTIONS} instructions")
    return [
        _instruction(instruction, f"{field}.{place}")
        for place, instruction in enumerate(instructions)
    ]


def _instruction(instruction: Any, field: str) -> dict[str, Any]:
    name = instruction.get("id") if isinstance(instruction, dict) else None
    if not isinstance(name, str) or name not in FIELDS:
        raise BadInstructions(f"{field}: {name!r} is a check that is not known")
    kwargs = instruction.get("kwargs") or {}
    if not isinstance(kwargs, dict):
        raise BadInstructions(f"{field}: must be an object")
    arguments = {}
    optional = OPTIONAL.get(name, {})
    for key, (is_right, why) in {**FIELDS[name], **optional}.items():
        value = kwargs.get(key)
        if value is None and key in optional:
            continue
        if not is_right(value):
            raise BadInstructions(f"{field}.{key}: {why}, for {name}")
        arguments[key] = int(kwargs[key]) if is_right is _is_count else value
    return {"id": name, "kwargs": arguments}
