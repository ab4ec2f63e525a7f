"""Tell whether a short answer lists other answers beside the right one, which then is not given.

They may stand on lines of their own, behind a comma, or be announced by "one of".
"""

import re

from apps.rewards.school.words import content, stem_words

MAX_NAME_WORDS = 4  # of an answer that is a name alone
_ONE_OF = re.compile(
    r"^\W{0,3}(?:one|another)\s\w{2,20}\s(?:is|was)\b|"
    r"\b(?:one|any|some|either)\sof\b|\bsuch\sas\b|\bsomething\slike\b"
    r"|\bfor\s(?:example|instance)\b"
    r"|\be\.g\.|\bamong\s(?:these|them|others)\b|\b(?:options|candidates|possibilities)\b",
    re.I,
)
_UNSURE = re.compile(
    r"\b(?:may|might|could)\s(?:also\s)?be\s(?:wrong|mistaken|incorrect|another|something\selse)\b"
    r"|\bcould\salso\sbe\b|\bnot\s(?:\w+\s)?(?:sure|certain)\b|\bif\snot\b|\botherwise,"
    r"|\balternatively\b|\bfailing\sthat\b"
    r"|\b(?:another|different|other)\squestion\b|\b(?:answer|option|guess)\s?#?[12]\b",
    re.I,
)
_OF_OTHERS = re.compile(
    r"\b(?:many|some|most|several|few|others)(?:\s(?:people|students|sources|experts))?\s"
    r"(?:\w{1,12}\s)?(?:say|think|believe|claim|argue|suggest|guess|assume)\b"
    r"|\bit\sis\s(?:often|sometimes|commonly)\s(?:said|believed|thought|claimed)\b",
    re.I,
)
_REFUSED = r"\W{1,3}(?:no|wrong|false|incorrect|nein|falsch|non|faux|falso|нет|неверно)(?!\w)"
_IN_BRACKETS = re.compile(r"(?<=\w)\s\(([^()]{1,60})\)")
_SHORT_FORM = re.compile(r"[A-Z][a-z]?|[A-Z.]{2,8}|.*(?:ian|ean|ish|ese|can|man)")
_HEADING_WORDS = frozenset(
    stem_words(
        "answers final short explanation reasoning reasons solution result conclusion response"
        " summary question thought step analysis"
    )
)
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{3}[.!])\s")
_BULLET = re.compile(r"^[\s#>*_•·-]{0,10}(?:\d{1,2}[.)]\s|\(?[A-Ja-j][.)]\s)?[\s*_]{0,4}")
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|did|does|do|will|would|can|could|became|wrote|made|won"
    r"|ist|sind|war|hat|est|sont|était|es|son|fue|era)\b|是|为|は|です",
    re.I,
)
_NAME = re.compile(
    r"(?:the\s)?[^\W\d_a-zà-ÿ][\w.'’-]{0,30}"
    r"(?:\s(?:(?:of|the|de|da|van|von|and)\s)?[^\W\d_a-zà-ÿ][\w.'’-]{0,30}){0,3}",
)


def lists_others(text: str, reference: str, question_stems: set[str]) -> bool:
    """Tell whether other answers stand beside the reference, or it is only one of several."""
    if any(doubt.search(text) for doubt in (_UNSURE, _OF_OTHERS)):
        return True
    before = text[: max(0, text.casefold().find(reference.casefold()))]
    if _ONE_OF.search(before):
        return True
    if re.search(re.escape(reference) + _REFUSED, text, re.I):
        return True
    expected = set(content(reference))
    bare_text = _SENTENCE_END.sub("\n", re.sub('["“”{}\\[\\]]', "", text))
    lines = [_BULLET.sub("", line).strip(" *_`.!") for line in bare_text.splitlines()]
    lines = [line for line in lines if re.search(r"\w", line)]
    if len(lines) > 1 and any(_is_other_name(line, expected, question_stems) for line in lines):
        return True
    return any(_has_name_behind(line, reference, question_stems) for line in lines)


def names_another(text: str, reference: str) -> bool:
    """Tell whether another name stands in brackets behind the reference: Canberra (Sydney).

    A short form, such as gold (Au), or a nationality is no other name.
    """
    behind = _IN_BRACKETS.match(text, len(reference)) if text.startswith(reference) else None
    return bool(
        behind and _NAME.fullmatch(behind[1]) and not _SHORT_FORM.fullmatch(behind[1].strip())
    )


def _is_other_name(line: str, expected: set[str], question_stems: set[str]) -> bool:
    """Tell whether a line is a name alone, without a verb, and another than the expected one."""
    label, colon, statement = line.partition(":")
    if colon and not set(stem_words(label)) <= _HEADING_WORDS:
        return False  # Source: Wikipedia
    line = statement.strip(" *_") if colon else line
    if not line or line.endswith("：") or _VERB.search(line):
        return False
    stems = set(content(line))
    if not stems or stems & expected or stems <= _HEADING_WORDS | question_stems:
        return False
    return len(line.split()) <= MAX_NAME_WORDS and not line[:1].islower()


def _has_name_behind(line: str, reference: str, question_stems: set[str]) -> bool:
    """Tell whether only names follow the reference in a list: Canberra, Sydney, Perth."""
    start = line.casefold().find(reference.casefold())
    if start < 0:
        return False
    behind = line[start + len(reference) :].rstrip(" .!*_)")
    joint = re.match(r"\s?[,;/|&=>·•]\s?|\s[–—-]\s|\s(?:and|plus)\s", behind)
    if joint is None:
        return False
    names = re.split(r"\s?[,;/|&]\s?(?:and\s)?|\s(?:and|plus)\s", behind[joint.end() :])
    return bool(names) and all(
        _NAME.fullmatch(name) and not set(content(name)) <= question_stems
        for name in names
        if name.strip()
    )
