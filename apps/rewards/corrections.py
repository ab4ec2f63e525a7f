"""Find where a text takes back what it said: "It is Lyon. No, it is Paris.", in seven languages.

The last statement is the answer. Marked answers are no sentences: several that differ stay several.
"""

import re

# "No" takes back a statement only where a pause follows: "No solution exists" does not.
_NO = "no|nope|nein|non|нет|いや|いえ"
_WORDS = (
    r"wait|oops|hold on|actually|correction|scratch that|sorry|my (?:mistake|bad)"
    r"|on second thoughts?"
    r"|i made (?:a|an) (?:mistake|error)|halt|moment|korrektur|entschuldigung|vielmehr|pardon"
    r"|en fait|attendez|plutôt|perdón|corrección|espera|mejor dicho|en realidad|стоп|точнее|вернее"
    r"|поправка|извините"
)
_IN_CJK = r"不对|不對|等等|更正|抱歉|应该说|違う|違います|訂正|すみません|間違えました"
_PAUSE = r"[\s,.:;!，。：！、…—–-]{1,5}"
_SIGH = r"(?:(?:hmm|hm|oh|ah|oops|well|but|no|nein|non|but|aber|mais|pero)[,.!…]{0,3}\s)?"
_NEXT = rf"(?:(?:no|nein|non|i meant?|wait)\b{_PAUSE})?"
_BEGINS = re.compile(
    rf"(?<=[.!?…。！？\n])[\s*_]{{0,4}}{_SIGH}(?:(?:{_NO})(?=[,.:;!—–、，。-])|(?:{_WORDS})"
    rf"(?![^\W_])|{_IN_CJK}){_PAUSE}{_NEXT}(?=\S)"
    rf"|(?:[,;]|…|\.\.\.?|\s[—–-])\s{{0,2}}(?:oh,?\s|wait,?\s)?(?:(?:{_NO}|wait|sorry"
    r"|actually)[,:;]\s"
    rf"|(?:or rather|i meant?|make that|scratch that|vielmehr|mejor dicho"
    r"|je veux dire|то есть)[,:]?\s)"
    r"(?:wait,?\s|i meant?\s)?(?=\S)",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[^\W\d_][.!?…])\s|(?<=[\d)%$][.!?])\s(?=[^\W\d_])|[\n。！？]")


def corrections(text: str) -> list[re.Match]:
    """List the matches that take back the text before them; the correction follows each."""
    return list(_BEGINS.finditer(text))


def last_statement(text: str) -> str:
    """Return what follows the last correction; the whole text if nothing is corrected."""
    matches = corrections(text)
    statement = text[matches[-1].end() :] if matches else ""
    return statement if re.search(r"\w", statement) else text


def without_corrected(text: str) -> str:
    """Leave out the sentence before each correction; keep all earlier sentences."""
    uncorrected = ""
    start = 0
    for correction in corrections(text):
        before = uncorrected + text[start : correction.start()]
        ends = [end.end() for end in _SENTENCE.finditer(before.rstrip())]
        uncorrected = before[: ends[-1]] if ends else ""
        start = correction.end()
    return uncorrected + text[start:]
