"""Read replies to questions for the statement that is not true, or the thing that is not one.

There, "B is true" names a wrong choice and "B is not true" the right one. The reply is written
again as if it answered a question for the right choice, so that its letters are read as usual.
"""

import re

MAX_PROMPT_LENGTH = 8_000  # characters that are read, from the end
_ASKS_FALSE = re.compile(
    r"\b(?:which|what|identify|select|choose|find)\b[^.?!\n]{0,120}?"
    r"(?:\b(?:is|are|was|were)\s(?:not|NOT|\*\*not\*\*|\*\*NOT\*\*)\s(?:a\s|an\s|the\s)?"
    r"(?:true|correct|right|valid|accurate)\b"
    r"|\b(?:is|are|isn['’]t|aren['’]t)\s(?:true|correct|right)\b(?=[^?\n]{0,5}\bexcept)"
    r"|\b(?:isn['’]t|aren['’]t)\s(?:true|correct|right)\b"
    r"|\b(?:false|incorrect|untrue|wrong|inaccurate)\b)"
    r"|\ball\b[^.?!\n]{0,120}?\b(?:true|correct)\b[^.?!\n]{0,40}?\bexcept\b",
    re.I,
)
_ASKS_NO_MEMBER = re.compile(
    r"\bwhich\b[^.?!\n]{0,80}?\b(?:is|are)\s\**not\**\s((?:an?\s|the\s)?[\w' -]{2,60}?)\s?\?", re.I
)
_STATES_TRUE = re.compile(
    r"\b(?:is|are)\s(?:all\s|both\s|indeed\s|a\s|an\s)*"
    r"(?:true|accurate|valid|(?:correct|right)(?=\sstatements?\b))(?:\sstatements?)?(?!\s?answer)",
    re.I,
)
_STATES_FALSE = re.compile(
    r"\b(?:(?:is|are)\s(?:the\s|a\s|an\s)?(?:false|untrue|incorrect|inaccurate|wrong"
    r"|not\s(?:a\s)?(?:true|correct|right|valid|accurate))"
    r"|(?:isn|aren)['’]t\s(?:a\s)?(?:true|correct|right|valid|accurate))"
    r"(?:\s(?:statements?|one))?\b(?!\s(?:answer|choice|option))",
    re.I,
)
_FALSE_STATEMENT = re.compile(
    r"\b(?:false|incorrect|untrue|wrong)\s(?:statement|claim|one)\b"
    r"|\b(?:statement|one|claim)\s(?:that|which)\s(?:is\s(?:not\strue|not\scorrect|false|untrue"
    r"|incorrect|wrong)|isn['’]t\s(?:true|correct))",
    re.I,
)
_TRUE_STATEMENT = re.compile(
    r"\b(?:true|correct)\s(?:statement|claim)\b(?=\s(?:is|:))"
    r"|\b(?:statement|one|claim)\s(?:that|which)\sis\s(?:true|correct)\b",
    re.I,
)
_RIGHT = "is right"
_WRONG = "is wrong"


def restate(reply: str, prompt: str) -> str:
    """Return the reply as one to a question for the right choice; unchanged for other questions."""
    question = prompt[-MAX_PROMPT_LENGTH:]
    if _ASKS_FALSE.search(question):
        return _by_truth(reply)
    if match := _ASKS_NO_MEMBER.search(question):
        return _by_kind(reply, match[1])
    return reply


def _by_truth(reply: str) -> str:
    """Swap what is said to be true and false, except of answers and choices."""
    reply = _FALSE_STATEMENT.sub("answer", reply)
    reply = _TRUE_STATEMENT.sub("wrong answer", reply)
    reply = _STATES_TRUE.sub("\0", reply)
    return _STATES_FALSE.sub(_RIGHT, reply).replace("\0", _WRONG)


def _by_kind(reply: str, kind: str) -> str:
    """Mark letters that the reply puts in the kind as wrong, and those outside it as right."""
    plain = re.sub(r"^(?:an?|the)\s", "", kind.strip(), flags=re.I)
    words = r"\s".join(map(re.escape, plain.split()))
    is_of_kind = re.compile(rf"\b(?:is|are)\s(?:an?\s|the\s|all\s|both\s)?{words}s?\b", re.I)
    is_not = re.compile(
        rf"\b(?:(?:is|are)\snot|(?:isn|aren)['’]t)\s(?:an?\s|the\s)?{words}s?\b", re.I
    )
    return is_of_kind.sub(_WRONG, is_not.sub(_RIGHT, reply))
