"""Check whether a reply follows instructions that a program can check, as IFEval names them.

Each check is a small function of the reply and the instruction's arguments. It returns whether the
reply follows the instruction, or None if that cannot be decided. Sentences, words and sections are
counted as people count them: a word is a run of letters and digits, and marks or blank lines
separate paragraphs.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from apps.rewards.spoken_language import language_of

Arguments = Mapping[str, Any]
AROUND = 0.1  # of a number that a count may be off where "around" is asked for
MAX_REPLY_LENGTH = 400_000  # characters that are looked at
_WORD = re.compile(r"\w+")
_ABBREVIATION = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|cf|No|Fig|approx|a\.m|p\.m|[A-Z])\.$"
)
_END_OF_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]*_]{0,3}\s++(?=\S)|(?<=[。！？।])")
_BULLET = re.compile(r"^[^\S\n]*(?:[*+•][^\S\n]*[^*\s]|-[^\S\n]*[^-\s])", re.MULTILINE)
_HIGHLIGHT = re.compile(r"\*\*([^\n*]+)\*\*|\*([^\n*]+)\*")
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]+\]")
_TITLE = re.compile(r"<<([^\n<>]+)>>")
_PARAGRAPHS = re.compile(r"\s?\*\s?\*\s?\*\s?")
_FENCE = re.compile(r"```(?:json)?[^\S\n]{0,9}\n(.*)```", re.DOTALL | re.IGNORECASE)
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def follows(name: str, arguments: Arguments, reply: str) -> bool | None:
    """Return whether the reply follows the instruction; None if that cannot be decided."""
    text = reply[:MAX_REPLY_LENGTH].strip()
    return CHECKS[name](text, arguments) if text else False


def is_as_often(count: int, expected: int, relation: str) -> bool:
    """Tell whether a count is at least, less than … the wanted one."""
    if relation == "around":
        return abs(count - expected) <= max(1, round(expected * AROUND))
    return {
        "at least": count >= expected,
        "at most": count <= expected,
        "less than": count < expected,
        "more than": count > expected,
        "exactly": count == expected,
    }[relation]


# -- words -----------------------------------------------------------------------------------------


def _times(text: str, keyword: str) -> int:
    """Count a word or phrase, whatever its case; it is no part of a longer word."""
    word = re.escape(keyword.strip())
    begins = r"(?<!\w)" if keyword.strip()[0].isalnum() and keyword.isascii() else ""
    ends = r"(?!\w)" if keyword.strip()[-1].isalnum() and keyword.isascii() else ""
    return len(re.findall(f"{begins}{word}{ends}", text, re.IGNORECASE))


def _has_keywords(text: str, arguments: Arguments) -> bool:
    """Tell whether each keyword occurs, also with an ending: "plants" has "plant"."""
    return all(keyword.strip().casefold() in text.casefold() for keyword in arguments["keywords"])


def _keyword_frequency(text: str, arguments: Arguments) -> bool:
    return is_as_often(
        _times(text, arguments["keyword"]), arguments["frequency"], arguments["relation"]
    )


def _has_no_forbidden(text: str, arguments: Arguments) -> bool:
    return not any(_times(text, word) for word in arguments["forbidden_words"])


def _letter_frequency(text: str, arguments: Arguments) -> bool:
    count = text.lower().count(arguments["letter"].strip().lower())
    return is_as_often(count, arguments["let_frequency"], arguments["let_relation"])


def _is_in_language(text: str, arguments: Arguments) -> bool | None:
    language = language_of(text)
    expected = arguments["language"].strip().lower().partition("-")[0]
    return language == expected if language else None


# -- lengths ---------------------------------------------------------------------------------------


def count_sentences(text: str) -> int:
    """Count sentences; a stop behind an abbreviation, or within a number, ends none."""
    parts = _END_OF_SENTENCE.split(text)
    ends = [part for part in parts[:-1] if not _ABBREVIATION.search(part)]
    return len(ends) + bool(parts[-1].strip())


def _number_sentences(text: str, arguments: Arguments) -> bool:
    return is_as_often(count_sentences(text), arguments["num_sentences"], arguments["relation"])


def _number_words(text: str, arguments: Arguments) -> bool:
    return is_as_often(len(_WORD.findall(text)), arguments["num_words"], arguments["relation"])


def _between_marks(text: str, mark: re.Pattern) -> list[str] | None:
    """Return the parts between marks; None where one of those in the middle is empty."""
    parts = [part.strip() for part in mark.split(text)]
    inner = parts[bool(parts) and not parts[0] : len(parts) - (not parts[-1])]
    return inner if all(inner) else None


def _number_paragraphs(text: str, arguments: Arguments) -> bool:
    parts = _between_marks(text, _PARAGRAPHS)
    return parts is not None and len(parts) == arguments["num_paragraphs"]


def _nth_paragraph_first_word(text: str, arguments: Arguments) -> bool:
    parts = [part.strip() for part in re.split(r"\n[^\S\n]*\n\s*", text)]
    place = arguments["nth_paragraph"]
    if len(parts) != arguments["num_paragraphs"] or not 0 < place <= len(parts):
        return False
    first = parts[place - 1].lstrip("\"'“‘*_#> ").casefold()
    expected = arguments["first_word"].strip().casefold()
    return first.startswith(expected) and not first[len(expected) : len(expected) + 1].isalnum()


# -- contents and formats --------------------------------------------------------------------------


def _number_placeholders(text: str, arguments: Arguments) -> bool:
    return len(_PLACEHOLDER.findall(text)) >= arguments["num_placeholders"]


def _has_postscript(text: str, arguments: Arguments) -> bool:
    """Tell whether a line begins with the marker, as P.S. or P.P.S, and says something."""
    letters = re.sub(r"[.\s:]", "", arguments["postscript_marker"]).lower()
    marker = r"\.?\s?".join(map(re.escape, letters))
    begins = re.compile(rf"^[*_> \t]{{0,9}}{marker}[.:]?\W{{0,20}}\w", re.MULTILINE)
    return begins.search(text.lower()) is not None


def _number_bullets(text: str, arguments: Arguments) -> bool:
    return len(_BULLET.findall(text)) == arguments["num_bullets"]


def _is_one_answer(text: str, arguments: Arguments) -> bool:
    """Tell whether the reply gives exactly one of the answers that are allowed."""
    options = arguments.get("options") or ANSWERS
    mentioned = {option for option in options if _times(text, option)}
    inner = {
        option
        for option in mentioned
        for longer_option in mentioned
        if option != longer_option and option in longer_option
    }
    return len(mentioned - inner) == 1


def _number_highlights(text: str, arguments: Arguments) -> bool:
    highlights = [bold or plain for bold, plain in _HIGHLIGHT.findall(text)]
    return sum(bool(highlight.strip()) for highlight in highlights) >= arguments["num_highlights"]


def _number_sections(text: str, arguments: Arguments) -> bool:
    splitter = re.escape(arguments["section_spliter"].strip())
    begins = re.compile(rf"^[ \t#*_]{{0,9}}{splitter}\s?(?:\d+|[IVX]+)\b", re.MULTILINE)
    return len(begins.findall(text)) >= arguments["num_sections"]


def _is_json(text: str, arguments: Arguments) -> bool:
    fenced = _FENCE.fullmatch(text)
    try:
        json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_title(text: str, arguments: Arguments) -> bool:
    return any(title.strip() for title in _TITLE.findall(text))


def _has_two_responses(text: str, arguments: Arguments) -> bool:
    parts = _between_marks(text, re.compile(r"\*{6}"))
    return parts is not None and len(parts) == 2 and parts[0] != parts[1]


def _repeats_prompt(text: str, arguments: Arguments) -> bool:
    """Tell whether the reply begins with the prompt's words, and says more."""
    expected = " ".join(arguments["prompt_to_repeat"].split()).casefold()
    reply = " ".join(text.split()).casefold()
    return reply.startswith(expected) and len(reply) > len(expected)


def _ends_with(text: str, arguments: Arguments) -> bool:
    expected = arguments["end_phrase"].strip().strip('"').casefold()
    return text.strip('"').strip().casefold().endswith(expected)


def _is_quoted(text: str, arguments: Arguments) -> bool:
    return len(text) > 2 and text[0] in '"“' and text[-1] in '"”'


# -- case and punctuation --------------------------------------------------------------------------


def _capital_words(text: str, arguments: Arguments) -> bool:
    words = [word for word in re.findall(r"[^\W\d_][\w'’-]*", text) if word.isupper()]
    return is_as_often(len(words), arguments["capital_frequency"], arguments["capital_relation"])


def _is_capital(text: str, arguments: Arguments) -> bool:
    return text.isupper() and language_of(text) in ("en", "")


def _is_lowercase(text: str, arguments: Arguments) -> bool:
    return text.islower() and language_of(text) in ("en", "")


def _has_no_comma(text: str, arguments: Arguments) -> bool:
    return not re.search(r"[,，、]", text)


CHECKS: Mapping[str, Callable[[str, Arguments], bool | None]] = {
    "keywords:existence": _has_keywords,
    "keywords:frequency": _keyword_frequency,
    "keywords:forbidden_words": _has_no_forbidden,
    "keywords:letter_frequency": _letter_frequency,
    "language:response_language": _is_in_language,
    "length_constraints:number_sentences": _number_sentences,
    "length_constraints:number_paragraphs": _number_paragraphs,
    "length_constraints:number_words": _number_words,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph_first_word,
    "detectable_content:number_placeholders": _number_placeholders,
    "detectable_content:postscript": _has_postscript,
    "detectable_format:number_bullet_lists": _number_bullets,
    "detectable_format:constrained_response": _is_one_answer,
    "detectable_format:number_highlighted_sections": _number_highlights,
    "detectable_format:multiple_sections": _number_sections,
    "detectable_format:json_format": _is_json,
    "detectable_format:title": _has_title,
    "combination:two_responses": _has_two_responses,
    "combination:repeat_prompt": _repeats_prompt,
    "startend:end_checker": _ends_with,
    "startend:quotation": _is_quoted,
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": _is_capital,
    "change_case:english_lowercase": _is_lowercase,
    "punctuation:no_comma": _has_no_comma,
}
