"""Read multiple choice: which letters are right, and which were picked.

A letter that is denied, or contrasted with the picked one, is not picked. All letters that are
named as the answer are picked, so naming several is not a pick of one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apps.rewards import corrections
from apps.rewards.final_answer import after_thinking, boxes, hashes, inside_tags

NAMES = ("value", "correct", "answer", "letters")
MAX_ANSWER_LENGTH = 600  # characters of a final answer
_MAX_SUBJECT_LENGTH = 20  # characters before "is a common answer" that are its subject
WRONG_BEFORE = 20  # characters in which "wrong" stands before "answer is b"
LINES = 8  # from the end, in which the letter may be named before other words
# Possessive: blanks between two letters could be shared out in several ways, which multiply.
_GAP = r"\s*+(?:[).]\s*+)?+(?:(?:[,;&/+、，]|\band\b|\bor\b|\bund\b|\bet\b|\by\b|和)\s*+|(?<=\s))"
_LIST = re.compile(rf"\(?\s*+[A-Z](?:{_GAP}\(?\s*+[A-Z])*+\s*+[).]?")
_TOGETHER = re.compile(r"[A-H]{2,8}")
_TOGETHER_IN_CHINESE = re.compile(r"(?:故?选|答案[是为：:]?)?\s?([A-H]{2,8})\s?(?:正确)?[。.]?")
_LABEL = re.compile(
    r"[\s>*_-]{0,8}(?:\d{1,2}[.)]\s)?\(?([A-Z])"
    r"(?:[).:]\**(?=\s|$)|\**$|\**\s?[-–:]|\**\s?(?=[✓✔✅✗✘❌]))"
)
# A choice on a line of its own in a question: A. red, (A) red, A) red.
_CHOICE = re.compile(r"^[ \t*-]{0,6}\(?([A-J])[).:]\**[ \t]{1,4}(\S[^\n]{0,300})$", re.M)
# All choices in one line: (A) red (B) green, A. red B. green.
_IN_ONE_LINE = (
    re.compile(r"\(([A-J])\)\s{1,4}([^()\n]{1,80}?)(?=\s{1,4}\([A-J]\)\s|\s*$|\n)"),
    re.compile(r"(?<![\w(])([A-J])[.)]\s{1,4}([^\n]{1,80}?)(?=[,;]?\s{1,4}[A-J][.)]\s|\s*$|\n)"),
)
_NEAR = r"(?<!\w)(?:near|outside|beyond|close\sto|(?:north|south|east|west)\sof)\s(?:the\s)?"
_LOWER = re.compile(r"\s++[a-z]")
_LATIN = "A-Za-zÀ-ÖØ-öø-ÿ'’"
_ALONE = re.compile(rf"(?<![{_LATIN}])\(?([A-Z])\)?(?![{_LATIN}])")
_LOWER_NAMED = re.compile(
    r"(?:answer|option|choice)s?(?:\s(?:is|are)?:?|:)\s?\(?([a-h])\)?(?=[).,:]|$)"
    r"|(?:choose|pick|select)\s\(([a-h])\)|^\(?([a-z])[).]?$",
    re.I,
)
_CLAUSE = re.compile(
    r"[.;:!?\n。；：！？]|,|，|\b(?:because|since|as|while|whereas|although|though|but|however|so"
    r"|therefore|thus|hence|which)\b|因为|所以|但是|而",
    re.I,
)
_SAYS = re.compile(
    r"\b(?:answers?|correct|right|true|best|choose|chose|pick|select|go(?:ing)? with"
    r"|(?:has|have) to be|must be|antwort"
    r"|richtig|réponse|bonne|respuesta|correcta|ответ)\b|答案|选|正确|答え|正解",
    re.I,
)
# What is said of a letter that is not the answer, wherever it stands in the clause.
_ANSWERS = re.compile(
    r"\b(?:answers?|choose|chose|pick|select|antwort|réponse|respuesta|ответ)\b|答案|选|答え", re.I
)
_NAMED_BEFORE = re.compile(rf"({_ANSWERS.pattern})\**\s?[:：=]\**", re.I)
_FORMULA = re.compile(r"\$[^$\n]{1,300}\$|\\\([^\n]{1,300}?\\\)")
_DENIED_BY_SIGN = re.compile(r"(?:[~¬]|\\(?:neg|lnot)(?![a-z]))\s?(?=\(?[A-J](?![A-Za-z]))")
_ANNOUNCEMENT = re.compile(
    r"[\s*_#>-]{0,6}(?:the\s|my\s)?(?:final\s|correct\s)?(?:answer|antwort|réponse|respuesta|答案|答え"
    r"|ответ)(?:\sis)?[\s*:：]{0,5}\(?([A-J])\)?[.。\s*]{0,4}",
    re.I,
)
_ASKED = re.compile(r"(?<![A-Za-z])\(?[A-Z]\)?\?(?=\s(?:No|Not|Wrong|Nein|Non)\b)", re.I)
# A question is no answer, and "Between A and C, C is better" names two letters to pick one.
_QUESTION = re.compile(r"[^.!?\n]{0,300}\?(?!\s(?:No|Not|Wrong|Nein|Non|Yes|Right|Ja|Oui)\b)")
_BETWEEN = re.compile(r"\b[Bb]etween\s\(?[A-J]\)?\sand\s\(?[A-J]\)?,\s(?=\(?[A-J]\b)")
# A letter that is set against another: not A but B; one that would be right in another case.
_RATHER = re.compile(
    r"\(?[A-J]\)?(?:ではなく|じゃなくて?)、?|\bNo\s\(?[A-J]\)?,?\ssino\s"
    r"|\(?\b[A-J]\)?\swould be [^,.;]{1,60} if [^,.;]{1,80}[,;]\s"
)
_MAYBE_BEHIND = re.compile(r",\s(maybe|perhaps|possibly)\b", re.I)
_NONE = re.compile(r"\banswer\s?(?:is|:)\s?none\b(?! of the above)", re.I)
_DOUBTED = re.compile(r"\b(?:maybe|perhaps|possibly|(?:could|might|may) be)\b", re.I)
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_BY_PLACE = re.compile(
    rf"(?:(?:it|the (?:correct |right )?(?:answer|one)) is\s)?(?:the\s)?({'|'.join(_ORDINALS)})"
    r"\s(?:option|choice|answer|one)",
    re.I,
)
_SO_LETTER = re.compile(r"\b(?:so|therefore|thus|hence)\b,?\s\(?([A-J])\)?\Z")
_EITHER = re.compile(
    r"(?<!not )(?<!neither )(?<![A-Za-z(])\(?[A-J]\)?,?\s(?:or|oder|ou|o)\s\(?[A-J](?![A-Za-z])"
    r"|[A-J]或者?[A-J]"
)
# Letters that end the name of a thing.
_NAMES_BEFORE = re.compile(r"\b(?:vitamin|hepatitis|appendix|grade)\s\(?$", re.I)
# Letters of full width, and circled ones.
_PLAIN_LETTERS = {code: code - 0xFEE0 for code in range(0xFF21, 0xFF3B)} | {
    **{code: code - 0x24B6 + ord("A") for code in range(0x24B6, 0x24D0)},
    **{code: code - 0xFEE0 for code in range(0xFF41, 0xFF5B)},
}
# What stands behind each letter where all are gone through: "- A: yes".
_YES = re.compile(r"[\s*_-]*(?:yes|true|correct|right|✓|✔|✅|对|正确)[\s*_.!]*$", re.I)
_NO = re.compile(r"[\s*_-]*(?:no|false|incorrect|wrong|✗|✘|❌|错|不正确)[\s*_.!]*$", re.I)
# All letters in a row with a verdict on each: "A. False. B. True."
_VERDICT_BEHIND = re.compile(
    r"\(?([A-Z])[).:]{0,2}\s{0,2}[-–:]?\s{0,2}(?:is\s)?"
    r"(yes|no|true|false|correct|incorrect|right|wrong|✓|✔|✅|✗|✘|❌)(?![a-z])[\s.,;]{0,3}",
    re.I,
)
_NOT_WRONG = re.compile(r"\bnot (?:wrong|incorrect|false)\b", re.I)
# A letter that would be the answer in another case: "If x were odd, the answer would be B."
_SUPPOSED = re.compile(
    r"\b(?:if|had|were)\b[^.?!\n]{1,120}\bwould (?:be|have been)\b[^.?!,;\n]{0,80}(?=[.?!,;]\s)",
    re.I,
)
_QUOTED = re.compile(r"(?<!\w)['\"“‘`]([A-Z])['\"”’`](?!\w)")
_ARROWS = re.compile(r"^[=→⇒∴>\s-]{1,4}(?=\(?[A-Z]\b)")
# What others pick, or what was thought first, before the sentence or clause with the answer.
_OF_OTHERS = re.compile(
    r"\b(?:most|many|some|several|few)(?:\s(?:people|students|pupils|others|readers|candidates))?"
    r"(?:\s(?:would|will|might|may|often|wrongly|mistakenly|incorrectly|tend to))?"
    r"\s(?:pick|choose|chose|answer|say|select|think|go|guess|believe|assume|fall)\b"
    r"|\b(?:students|people|pupils|others|beginners)\s(?:\w{1,12}\s){0,2}(?:pick|choose|answer|say"
    r"|select|think|go|guess|believe)\b"
    r"|\b(?:one|you|we|someone|anyone|it)"
    r"\s(?:might|may|could|would)\s(?:\w{1,12}\s){0,2}(?:think|pick"
    r"|choose|say|guess|believe|assume|expect|seem|be tempted)\b"
    r"|\b(?:common|popular|usual|frequent"
    r"|tempting|typical|obvious)\s(?:\w{1,12}\s)?(?:answer|choice"
    r"|mistake|error|guess|pick|trap)s?\b"
    r"|\b(?:at first|initially|originally|my first (?:guess|thought|idea)"
    r"|I (?:first|initially|originally) (?:thought|guessed|said|picked|chose))\b"
    r"|\b(?:seems?|looks?|appears?)\s(?:\w{1,12}\s)?(?:like|tempting|right|plausible|correct"
    r"|good|to be)\b"
    r"|\b(?:die meisten|viele|manche|la plupart|beaucoup|certains|muchos|la mayoría|algunos"
    r"|auf den ersten blick|zuerst|à première vue|d['’]abord|al principio|a primera vista)"
    r"(?![^\W_])"
    r"|(?:很多|许多|大多数)(?:人|同学|学生)|乍一看|一开始|многие|большинство|сначала"
    r"|на первый взгляд"
    r"|多くの人|最初は|一見",
    re.I,
)
_CONTRAST = re.compile(
    r"[,;.]?\s(?:but|yet|however|though|in fact|aber|doch|jedoch|mais|cependant|pero|sin embargo|но"
    r"|однако)(?![^\W_])[,\s]{0,2}|[.;!]\s|，?(?:但是?|不过|其实)|[。；]|が、",
    re.I,
)
_WRONG = re.compile(
    r"\b(?:wrong|false|incorrect|untrue|unlikely|doubtful|invalid|excluded|eliminated?|rule[sd]?"
    r" out|discard(?:ed)?|reject(?:ed)?|cross(?:ed|ing)? out|distractors?|impossible|falsch"
    r"|faux|fausse|incorrecta?)\b|\b(?:not|n['’]t|never|cannot)(?: be| the)?(?:"
    r" (?:correct|right|true"
    r"|answer|possible|valid|it))|n['’]t (?:correct|right|true|the)"
    r"|^\W{0,4}\(?[A-J]\)?[:,]?\sno\W{0,3}$"
    r"|错|不正确|不对|ではあり|ではな|じゃな|아닙|아니",
    re.I,
)
_NOT = re.compile(
    r"\b(?:not|neither|nor|never|cannot(?: be)?|than|(?:instead|opposite)"
    r" of|none of(?=\s\(?[A-Z]\b)|(?<!no )(?<!a )(?<!any )(?<!without )doubts?"
    r"|over(?=\s\(?[A-Z]\b)|nicht|weder|noch|pas|ni|sino|не)\b|n['’]t\b|不是|不选"
    r"|\bno(?=\s(?:es|son)\b)",
    re.I,
)
# A line with which the reasons for an answer begin, and what takes the answer back there.
_EXPLAINS = re.compile(
    r"[*_#>\s]{0,6}(?:explanation|reason(?:ing)?|rationale|justification|解析|解释|理由|説明)"
    r"[*_\s]{0,4}[:：]",
    re.I,
)
_TAKEN_BACK = re.compile(r"\b(?:actually|wait|correction|instead|sorry)\b|不对|错了", re.I)
_IS_I = re.compile(r".*(?:\bis|[:：])\s{1,3}I\s*", re.S)  # the letter, no person
_CONCEDED = re.compile(r"^(?:while|although|though|even though)\b[^,]{1,200},\s*", re.I)
_EXCEPT = re.compile(r"\b(?:except|but)\b|除了", re.I)


def read_right_letters(answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the right letters from the first field of `NAMES` that is set; empty if none is."""
    value = next((answer[name] for name in NAMES if answer.get(name)), None)
    values = value if isinstance(value, list) else [value]
    texts = [entry for entry in values if isinstance(entry, str)]
    if len(texts) < len(values):
        return frozenset()
    letters = [letter for text in texts for letter in _split_letters(text.strip().upper())]
    return frozenset(letters)


def _split_letters(text: str) -> list[str]:
    if _TOGETHER.fullmatch(text):
        return list(text)
    return re.findall(r"[A-Z](?![A-Z])", text) if _LIST.fullmatch(text) else []


def read_choices(question: str) -> dict[str, str]:
    """Return the choices that the question lists, by letter from A on; empty if it lists none."""
    for form in (_CHOICE, *_IN_ONE_LINE):
        choices = {letter: words.strip(" *,;") for letter, words in form.findall(question)}
        expected = "ABCDEFGHIJ"[: len(choices)]
        if len(choices) > 1 and "".join(choices) == expected:
            return choices
    return {}


def says_either(response: str) -> bool:
    """Tell whether the last line names letters with "or" between them."""
    return bool(
        _EITHER.search(after_thinking(response).strip().rpartition("\n")[2][-MAX_ANSWER_LENGTH:])
    )


def picked(response: str, choices: Any = None, several: bool = False) -> frozenset[str]:
    """Return the letters that are named as the answer; empty where none is."""
    reply = after_thinking(response).translate(_PLAIN_LETTERS)
    marked = [*boxes(reply), *hashes(reply), *inside_tags(reply)]
    readings = [_read(text, choices, several) for text in marked]
    if any(readings):
        return frozenset().union(*readings)
    return _read_last_lines(reply, choices, several)


def _read_last_lines(reply: str, choices: Any, several: bool) -> frozenset[str]:
    """Read the last lines: a list of letters, or the last line that names one."""
    lines = [line.strip() for line in reply[-4 * MAX_ANSWER_LENGTH :].splitlines() if line.strip()]
    explanation_start = next(
        (place for place, line in enumerate(lines) if _EXPLAINS.match(line)), 0
    )
    if explanation_start and (
        picks := _read_last_lines("\n".join(lines[:explanation_start]), choices, several)
    ):
        behind = "\n".join(lines[explanation_start:])
        if not _announced_letters(behind) - picks and not _TAKEN_BACK.search(behind):
            return picks
    if len(announced := _announced_one_by_one(lines)) > 1:
        return announced
    if lines and (judged := _letters_judged_right(lines[-1])) is not None:
        return judged
    listed: list[tuple[str, str]] = []
    while lines[len(listed) :] and (label := _LABEL.match(line := lines[-1 - len(listed)])):
        listed.append((label[1], line[label.end() :]))
        if len(listed) == len(lines):
            break
    if len(listed) > 1 and all(_YES.match(behind) or _NO.match(behind) for _, behind in listed):
        return frozenset(letter for letter, behind in listed if _YES.match(behind))
    if len(listed) > 1:
        return frozenset(letter for letter, _ in listed)
    denied: set[str] = set()
    for line in reversed(lines[-LINES:]):
        if picks := _read(line[-MAX_ANSWER_LENGTH:], choices, several):
            return picks - denied
        if _NOT.search(line) or _WRONG.search(line):
            denied_in_line = _denied_letters(line)
            if not denied_in_line:
                return frozenset()
            denied |= denied_in_line
    return frozenset()


def _announced_one_by_one(lines: list[str]) -> frozenset[str]:
    """Return the letters of the last lines that only announce one: "Answer: A", "Answer: B"."""
    letters: set[str] = set()
    for line in reversed(lines):
        announcement = _ANNOUNCEMENT.fullmatch(line)
        if announcement is None:
            break
        letters.add(announcement[1])
    return frozenset(letters)


def _denied_letters(text: str) -> set[str]:
    return set().union(*(_picks_and_denials(clause)[1] for clause in _clauses(text)))


def _letters_judged_right(line: str) -> frozenset[str] | None:
    """Return the letters with the verdict "right" in a line that gives each letter a verdict.

    None for any other line.
    """
    verdicts = list(_VERDICT_BEHIND.finditer(line))
    if len(verdicts) < 2 or _VERDICT_BEHIND.sub("", line).strip(" *_.-"):
        return None
    return frozenset(verdict[1].upper() for verdict in verdicts if _YES.match(verdict[2]))


def _read(text: str, choices: Any, several: bool) -> frozenset[str]:
    text = re.sub(
        r"\\(?:text\w{0,4}|mathrm|mathbf|mbox)\s?\{([^{}]*)\}", r"\1", text[:MAX_ANSWER_LENGTH]
    )
    text = re.sub(r"\*\*|(?<!\w)__|__(?!\w)", "", text).strip().strip("$. ")
    text = _DENIED_BY_SIGN.sub("not ", text)
    text = _ARROWS.sub("", _QUOTED.sub(r"\1", _NOT_WRONG.sub("right", text)))
    text = _RATHER.sub("", _MAYBE_BEHIND.sub(r" \1", text))
    if _NONE.search(text) and not any(
        "none" in choice.lower() for choice in _choices(choices).values()
    ):
        return frozenset()
    text = _BETWEEN.sub("", _QUESTION.sub(_drop_unanswered_question, text)).strip()
    if answer := _after_others_pick(text):
        text = answer
    for correction in reversed(corrections.corrections(text)):
        tail = text[correction.end() :]
        picks, denies = _picks_and_denials(next(_clauses(tail), ""))
        if picks and not denies:
            return _read(tail, choices, several)
    if any(_letters(supposed := _SUPPOSED.sub(" ", text))):
        text = supposed.strip()
    return _add_choice_in_words(text, _read_letters(text, choices, several), choices)


def _drop_unanswered_question(match: re.Match) -> str:
    """Remove a question, except one with a reply such as "A? No.", which denies the letter."""
    return match.group() if _ASKED.search(match.group()) else " "


def _after_others_pick(text: str) -> str:
    """Return the text after a contrast with what others pick; "" if it picks no letter."""
    others_pick = _OF_OTHERS.search(text)
    contrast = _CONTRAST.search(text, others_pick.end()) if others_pick else None
    if others_pick is None or contrast is None:
        return ""
    before = text[: others_pick.start()]
    is_subject = len(before) < _MAX_SUBJECT_LENGTH and not _ANSWERS.search(before)
    if any(_letters(before)) and not is_subject:
        return ""
    conclusion = text[contrast.end() :]
    picks = set().union(*(_picks_and_denials(clause)[0] for clause in _clauses(conclusion)))
    return conclusion if picks else ""


def _add_choice_in_words(text: str, picks: frozenset[str], choices: Any) -> frozenset[str]:
    """Add the choice whose words follow the label of another choice: "A. Paris"."""
    if len(picks) != 1:
        return picks
    (letter,) = picks
    behind = re.search(rf"(?<![A-Za-z]){letter}[).:]\s+([^\n]{{1,200}})", text)
    worded = _by_words(behind[1], choices) if behind else frozenset()
    return picks if letter in worded else picks | worded


def _read_letters(text: str, choices: Any, several: bool) -> frozenset[str]:
    if place := _BY_PLACE.fullmatch(text):
        return frozenset("ABCDE"[_ORDINALS.index(place[1].lower())])
    commas = re.sub(r"\s(?:and|or|und|et|y|e)\s(?=\(?[A-Za-z]\b)", ", ", text)
    is_short = several and _LIST.fullmatch(commas.upper()) and len(text) < 30
    if re.fullmatch(r"\(?[a-z][).]?", text) or is_short:
        text = commas.upper()
    together = _TOGETHER_IN_CHINESE.fullmatch(text)
    if several and (together or _TOGETHER.fullmatch(text)):
        return frozenset(together[1] if together else text)
    if _LIST.fullmatch(text):
        return frozenset(re.findall(r"[A-Z]", text))
    if words := _by_words(text, choices):
        return words
    if announced := _announced_letters(text):
        return announced
    if re.search(r"\\[a-zA-Z]|[=^_<>]", text):  # a formula: its letters are no choices
        so = _SO_LETTER.search(text)
        return frozenset(so[1]) if so else frozenset()
    if (label := _LABEL.match(text)) and len(text) > 2:
        bracketed = {
            match[1] for match in re.finditer(r"(?<![A-Za-z])\(?([A-Z])\)(?![A-Za-z])", text)
        }
        return frozenset({label[1], *(bracketed - _denied_letters(text))})
    return _letters_named(text) or _only_choice(text, choices)


def _announced_letters(text: str) -> frozenset[str]:
    """Return the letters that clauses with "answer" name, whatever formulas stand elsewhere."""
    picked: set[str] = set()
    denied: set[str] = set()
    for clause in _clauses(_FORMULA.sub(" ", text)):
        yes, no = _picks_and_denials(clause)
        denied |= no
        if _ANSWERS.search(clause) and not re.search(r"[=^_<>\\]", clause):
            picked |= yes
    return frozenset(picked - denied)


def _letters_named(text: str) -> frozenset[str]:
    """Return the letters that clauses with "answer" or "correct" name, else all clauses."""
    text = _CONCEDED.sub("", text)
    strong: set[str] = set()
    weak: set[str] = set()
    denied: set[str] = set()
    for clause in _clauses(text):
        yes, no = _picks_and_denials(clause)
        denied |= no
        weak |= yes
        if _SAYS.search(clause):
            strong |= yes
    if not weak and (match := _LOWER_NAMED.search(text)) and not _NOT.search(text):
        is_wrong = _WRONG.search(text[max(0, match.start() - WRONG_BEFORE) : match.start()])
        return frozenset() if is_wrong else frozenset((match[1] or match[2] or match[3]).upper())
    return frozenset((strong or weak) - denied)


def _clauses(text: str) -> Iterator[str]:
    """Yield the clauses; a list of letters with commas is in one of them."""
    text = _ASKED.sub(" ", _NAMED_BEFORE.sub(r"\1 is ", text))
    text = re.sub(
        r"(?i)\b(?:everything|anything|all|any|(?:every|any|all)\s\w{3,12}) but\b", "except", text
    )
    joined_text = re.sub(r"(?<=\b[A-Z])\)?[,，]\s?(?=\(?[A-HJ-Z]\b(?!'))", " and ", text)
    joined_text = re.sub(r"(?<=\b[A-Z])[,，]?\s(?=(?:and|or)\s\(?[A-Z]\b)", " ", joined_text)
    for clause in _CLAUSE.split(joined_text):
        if clause and clause.strip():
            yield clause


def _picks_and_denials(clause: str) -> tuple[set[str], set[str]]:
    """Return which letters the clause picks, and which it denies."""
    letters = [(match.start(), match[1]) for match in _letters(clause)]
    if exception := _EXCEPT.search(clause):
        before = {letter for place, letter in letters if place < exception.start()}
        behind = {letter for place, letter in letters if place > exception.start()}
        return (behind, before) if _WRONG.search(clause) else (before, behind)
    if _WRONG.search(clause):
        return set(), {letter for _, letter in letters}
    if _DOUBTED.search(clause):
        return set(), set()
    start = negation.start() if (negation := _NOT.search(clause)) else len(clause)
    yes = {letter for place, letter in letters if place < start}
    return yes, {letter for place, letter in letters if place > start} - yes


def _letters(text: str) -> Iterator[re.Match]:
    """Yield letters that stand alone; "A" before a word and "I" are words themselves."""
    for match in _ALONE.finditer(text):
        is_word = match[1] == "A" and _LOWER.match(text, match.end()) and not _is_verb(text, match)
        is_self = match[1] == "I" and match.group() != "(I)" and not _IS_I.fullmatch(text)
        if not is_self and not is_word and not _NAMES_BEFORE.search(text[: match.start()]):
            yield match


def _is_verb(text: str, letter: re.Match) -> bool:
    """Tell "A is right" and "A and B" from "A dog"."""
    return bool(
        re.match(
            r"\s(?:is|are|and|or|was|because|since|but|as|rather|instead|not"
            r"|over|und|ist|both|seems?|looks|it\sis|must)\b",
            text[letter.end() :],
        )
    )


def _by_words(text: str, choices: Any) -> frozenset[str]:
    """Return the choice whose words make up the whole text."""
    wording = text.strip(" .!\"'").casefold()
    return frozenset(
        letter for letter, choice in _choices(choices).items() if choice.casefold() == wording
    )


def _only_choice(text: str, choices: Any) -> frozenset[str]:
    """Return the one choice whose words are in a clause that denies nothing.

    Clauses with "answer" count before all others.
    """
    letters_by_clause = [(clause, _named_by_words(clause, choices)) for clause in _clauses(text)]
    strong = {
        letter
        for clause, clause_letters in letters_by_clause
        if _ANSWERS.search(clause)
        for letter in clause_letters
    }
    letters = strong or {
        letter for _, clause_letters in letters_by_clause for letter in clause_letters
    }
    return frozenset(letters) if len(letters) == 1 else frozenset()


def _named_by_words(clause: str, choices: Any) -> set[str]:
    """Return the choices whose words are in the clause, and not only part of another's.

    Return no choice if the other words of the clause deny something.
    """
    words = {letter: _spaced(choice) for letter, choice in _choices(choices).items()}
    spaced = _spaced(clause)
    named_letters = {letter for letter, wording in words.items() if wording in spaced}
    remaining = clause
    for choice in sorted(
        (_choices(choices)[letter] for letter in named_letters), key=len, reverse=True
    ):
        if re.search(_NEAR + re.escape(choice), clause, re.I):
            return set()
        remaining = re.sub(rf"(?<!\w){re.escape(choice)}(?!\w)", " ", remaining, flags=re.I)
    if _NOT.search(remaining) or _WRONG.search(remaining):
        return set()
    return {
        letter
        for letter in named_letters
        if not any(
            words[letter] != words[other_letter] and words[letter] in words[other_letter]
            for other_letter in named_letters
        )
    }


def _spaced(text: str) -> str:
    """Return the words of a text with one blank around each."""
    return " " + " ".join(re.findall(r"\w+", text.casefold())) + " "


def _choices(choices: Any) -> dict[str, str]:
    if isinstance(choices, list):
        choices = {chr(65 + place): choice for place, choice in enumerate(choices[:26])}
    if not isinstance(choices, dict):
        return {}
    texts = {str(letter).upper(): str(choice).strip() for letter, choice in choices.items()}
    return {letter: choice for letter, choice in texts.items() if choice}
