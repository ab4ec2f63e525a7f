"""Mark short answers by a scheme of key ideas, each stated in one of several ways and not denied.

Words are compared by their stems; articles and a word or two may stand between them, and a passive
sentence has them in the other order. A list of everything there is says nothing. What cannot be
decided so, a paraphrase, is said to be undecided.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.rewards import corrections, number_words, years
from apps.rewards.altered_numbers import is_altered

LONGEST = 20_000  # characters that are read
LONGEST_NUMBER = 60  # characters of a number in words
MOST_IDEAS = 50
BEFORE = 4  # words in front of an idea in which a "not" denies it
MOST_BETWEEN = 2  # other words between two words of an idea
LONGEST_STATEMENT = 40  # words of an answer in which a reference is looked for
NEGATIONS = frozenset(
    {
        "no",
        "not",
        "never",
        "none",
        "neither",
        "nor",
        "cannot",
        "without",
        "isnt",
        "arent",
        "wasnt",
        "werent",
        "doesnt",
        "dont",
        "didnt",
        "cant",
        "couldnt",
        "wont",
        "wouldnt",
        "hasnt",
        "havent",
        "nothing",
        "false",
        "incorrect",
        "wrong",
        "untrue",
        "unlike",
        "lack",
        "lacks",
        "instead",
        "doubt",
        "hardly",
        "scarcely",
        "unlikely",
        *"不没没非無",
    }
)
# Denials of a whole statement, however far before it: "it would be wrong to say that …".
OF_STATEMENTS = frozenset({"wrong", "false", "incorrect", "untrue"})
FILLERS = frozenset(
    {
        "a",
        "an",
        "th",
        "the",
        "it",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "that",
        "this",
        "they",
        "thi",
        "its",
        "of",
        "in",
        "on",
        "to",
        "and",
        "by",
        "for",
        "so",
        "there",
        "i",
        "think",
        "called",
        "call",
        "answer",
        "correct",
        "right",
        "fin",
        "final",
        "would",
        "because",
        "s",
        "my",
        "we",
    }
)
PASSIVE = frozenset({"is", "are", "was", "wer", "were", "been", "being", "be", "by", "get", "got"})
_COPULA = re.compile(
    r"[:：=]|\s[—–]\s|是|为|は"
    r"|\b(?:is|are|was|were|ist|sind|war|est|sont|es|son|lautet|called|named)\b",
    re.I,
)
_ALTERNATIVES = re.compile(r"\b(?:or|oder|ou|either|maybe|perhaps|possibly)\b|或", re.I)
# A word; of scripts without blanks each sign.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_BELIEVED = re.compile(r",?\s(?:i|we)\s(?:believe|think|guess|suppose|would say)\s?[.!]?$", re.I)
# "I am sure it is", "it must be" and "definitely" change no answer unless a contrast follows.
_SURE = re.compile(
    r"^(?:i|we)(?:\s(?:am|are)|['’](?:m|re))?\s(?:(?:strongly|firmly)\s)?"
    r"(?:believe|think|guess|suppose|(?:(?:quite|very|pretty|fairly|absolutely)\s)?"
    r"(?:sure|certain|confident))\s(?:that\s)?",
    re.I,
)
_EMPHASIS = re.compile(
    r"\b(?:definitely|certainly|surely|clearly|obviously|undoubtedly|indeed),?\s", re.I
)
_MUST = re.compile(r"\b(?:must|should|has\sto|will)\sbe\s(?=\w)", re.I)
_CONTRAST = re.compile(r"\b(?:but|however|although|though|instead|yet|while|whereas)\b", re.I)
_ANOTHER = re.compile(r"(?<=\w),\s(?:and\s)?not\s[^,;.!?]{1,60}[.!]?$", re.I)
# Words around an answer that say only that it is one, in languages that write or bend them apart.
_FRAME_BEFORE = re.compile(
    r"^(?:(?:คำตอบ)?\s?คือ|(?:الجواب|الإجابة|الاجابة)\s(?:هو|هي)"
    r"|(?:هو|هي)(?=\s)|это(?=\s)|ответ\s?[:—-]"
    r"|(?:정?답)은|答えは|उत्तर(?=\s))\s?",
    re.I,
)
_FRAME_BEHIND = re.compile(r"(?<=\w)(?:です|でした|입니다|이다|\sहै|ครับ|ค่ะ)\s?[.。!।]?$")
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = re.compile(  # the day and the month before a year
    rf"\b(?:on\s)?(?:\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?)?{_MONTH}\.?"
    r"(?:\s\d{1,2}(?:st|nd|rd|th)?,?)?\s(?:of\s)?(?=\d{4}(?!\d))",
    re.I,
)
_REMARK = re.compile(r"(?<=\w)\s\((?!or\b|not\b)[^()]{1,60}\)[.!]?$", re.I)
_VERDICTS = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
_POLITE = re.compile(r"(?:です|でした|である|だ)$")
_SEPARATOR = re.compile(r"[,;:/\n•]|\s[-–]\s|\b(?:and|or)\b|、|，|；", re.I)
_MOST_PART_WORDS = 4  # of an item of a list
_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ies", "ied", "ed", "es", "ly", "s", "e")
# A run of blanks within a line is read from its first one only, or from the comma in front of it.
_CLAUSE = re.compile(
    r"[.;:!?\n。；：！？]|(?:,|(?<!,)(?<![^\S\n]))[^\S\n]++(?:but|however|although|whereas)\s++"
    r"|,[^\S\n]++(?:and\s)?(?:it|they|he|she|we|this|these)\s++",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Idea:
    """Key idea of a marking scheme; it is worth `points` if one of the ways occurs."""

    any_of: tuple[str, ...]
    points: float


@dataclass(frozen=True)
class Scheme:
    """Marking scheme; `reference`: whole right answers.

    `wrong`: statements that cost one idea's worth each.
    """

    ideas: tuple[Idea, ...]
    reference: tuple[str, ...]
    wrong: tuple[Idea, ...] = ()

    @property
    def total(self) -> float:
        return sum(idea.points for idea in self.ideas)


@dataclass(frozen=True)
class MarkingResult:
    """Result of marking: ideas `found`, `denied`, `missing` and `wrong`, and the points."""

    points: float
    found: list[str]
    denied: list[str]
    missing: list[str]
    wrong: list[str]


def scheme(answer: Mapping[str, Any]) -> Scheme | None:
    """Read a marking scheme from `ideas`, `reference` (or `value`) and `wrong`.

    Return None if there is nothing to mark by.
    """
    reference: Any = next(
        (answer[name] for name in ("reference", "value", "answer") if answer.get(name)), []
    )
    texts = [reference] if isinstance(reference, str) else reference
    ideas = _ideas(answer.get("ideas", []))
    wrong = _ideas(answer.get("wrong", []))
    if (
        ideas is None
        or wrong is None
        or not isinstance(texts, list)
        or not all(isinstance(text, str) for text in texts)
    ):
        return None
    found = Scheme(ideas, tuple(text for text in texts if stem_words(text)), wrong)
    return found if found.ideas or found.reference else None


def _ideas(value: Any) -> tuple[Idea, ...] | None:
    if not isinstance(value, list) or len(value) > MOST_IDEAS:
        return None
    found = [idea for each in value if (idea := _idea(each)) is not None]
    return None if len(found) < len(value) else tuple(found)


def _idea(value: Any) -> Idea | None:
    if isinstance(value, str):
        value = {"any_of": [value]}
    if not isinstance(value, dict):
        return None
    ways = value.get("any_of", value.get("idea"))
    points = value.get("points", 1)
    ways = [ways] if isinstance(ways, str) else ways
    is_number = (
        isinstance(points, int | float) and not isinstance(points, bool) and 0 < points < 1e6
    )
    if (
        not isinstance(ways, list)
        or not ways
        or not all(isinstance(way, str) and stem_words(way) for way in ways)
        or not is_number
    ):
        return None
    return Idea(tuple(ways), float(points))


def stem_words(text: str) -> list[str]:
    """Return stems in lower case, without accents and marks."""
    plain = unicodedata.normalize("NFKD", text[:LONGEST].lower().replace("’", "'"))
    plain = (
        "".join(sign for sign in plain if not unicodedata.combining(sign))
        .replace("n't", "nt")
        .replace("'", "")
    )
    return [stem(word) for word in _WORD.findall(plain)]


def stem(word: str) -> str:
    """Strip the ending of a plural, a tense or an adverb, if at least three letters are left."""
    if word in NEGATIONS:
        return word
    ending = next(
        (ending for ending in _ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 3),
        "",
    )
    return word[: len(word) - len(ending)] if ending else word


_ASKS = re.compile(r"(?:is|are|was|were|could|might|would|can) [^.!?]{1,200}\?[\s*)]*", re.I)
_WHICH = re.compile(r"\b(?:which|what|who|whom|whose|where|when|why|how)\b", re.I)
_ABBREVIATION = re.compile(r"(?:[A-Z]\.?){2,6}")
_BUT = re.compile(r"^(?:it\s(?:is|was)\s|it['’]s\s)?not\s[^,;.]{1,60},?\sbut\s", re.I)
_RULED_OUT = re.compile(
    r"\b(?:is|are|was|were)(?:n['’]t| (?:not|wrong|incorrect|false|impossible)"
    r"| (?:one of )?(?:the|an?) (?:wrong|incorrect|false))\b",
    re.I,
)
# A clause that sets another answer against the one before it.
_SET_AGAINST = re.compile(
    r",?\s(?:but|however|yet)\s(?=(?:it|that|the\s\w{2,20})\s(?:is|was)\b)", re.I
)
_CONDITION = re.compile(r"\bif\b[^,]{1,200}", re.I)


def is_reference(text: str, reference: Sequence[str], asked: str = "") -> bool:
    """Tell whether a correct answer is given: alone, as a definition, or as the answer asked for.

    Denied, or as one of several, it is not.
    """
    return any(_gives(text, each, asked) for each in reference)


def _gives(text: str, reference: str, asked: str) -> bool:
    expected = content(reference)
    if years.is_year(reference):
        reference, text = years.in_one_form(reference), years.in_one_form(text)
    text = corrections.last_statement(text)
    text = _REMARK.sub("", _ANOTHER.sub("", _BELIEVED.sub("", text.strip())))
    text = _BUT.sub("", _FRAME_BEHIND.sub("", _FRAME_BEFORE.sub("", text)))
    text = _without_emphasis(text, reference)
    if not expected:
        return False
    if reference.strip().lower() in _VERDICTS:
        return _is_verdict(text, reference.strip().lower())
    is_number = re.fullmatch(r"\d{1,12}", reference.strip()) is not None
    if is_number and re.search(rf"(?:^|\s)[-−]{reference.strip()}(?!\d)", text):
        return False
    if years.is_year(reference) and years.alone(text) == reference:
        return True
    if is_number and _is_another(text, reference.strip()):
        return False
    if is_number and _is_only_number(text, reference.strip()):
        return True
    if _ASKS.fullmatch(text) or (text.endswith("?") and _WHICH.search(text)):
        return False
    if _same_words(text, reference):
        return True
    sentences = [
        one for one in re.split(r"(?<=[^\W\d])[.!?](?=\s|$)|\n|[。！？]", text) if stem_words(one)
    ]
    if not sentences or len(stem_words(text)) > LONGEST_STATEMENT or _ALTERNATIVES.search(text):
        return False
    statements = [_statement(one, expected, set(content(asked))) for one in sentences]
    return "said" in statements and "denied" not in statements


def _without_emphasis(text: str, reference: str) -> str:
    """Leave out how sure the writer is, unless a contrast follows or the reference says it too."""
    is_meant = _EMPHASIS.search(f"{reference} ") or _MUST.search(reference)
    if is_meant or _CONTRAST.search(text):
        return text
    return _MUST.sub("is ", _EMPHASIS.sub("", _SURE.sub("", text)))


def _same_words(text: str, reference: str) -> bool:
    """Tell whether the text is the reference but for articles and endings.

    A single name must have all of its letters: "Pari" is not Paris. Dots of abbreviations do not
    count, and a small number may stand in words.
    """
    expected = content(reference)
    if content(text) == expected:
        bare = _bare(text)
        names = [word for word in reference.split() if word[:1].isupper() and word[-1:] == "s"]
        return len(expected) > 1 or not names or bare.endswith("s")
    if is_abbreviation := _ABBREVIATION.fullmatch(reference.strip()):
        letters = is_abbreviation.group().replace(".", "")
        return re.sub(r"^[Tt]he\s", "", text.strip(" *")).replace(".", "") == letters
    if len(text) > LONGEST_NUMBER:
        return False
    number = number_words.in_digits(_bare(reference))
    return number.isdigit() and number_words.in_digits(_bare(text)) == number


def _bare(text: str) -> str:
    return text.strip(" .!*_\"'").casefold()


def _is_verdict(text: str, expected: str) -> bool:
    """Tell whether the answer begins with "no" as a word of its own, or ends as "the answer is
    no", and says the opposite nowhere."""
    words = re.findall(r"[a-z']+", text.lower())
    if _VERDICTS[expected] in words or not words:
        return False
    begins = re.match(rf"{expected}(?=[\s]*[,.!;:—–-]|\s*$)", text.lower().strip("*_\"' "))
    return (
        begins is not None
        or content(text) == content(expected)
        or (re.search(rf"\b(?:is|answer:)\s{expected}\s*[.!]?$", text.lower()) is not None)
    )


def _is_another(text: str, number: str) -> bool:
    """Tell whether words make another number of it, or a year that is not certain."""
    for found in re.finditer(rf"(?<!\d){number}(?!\d)", text):
        if is_altered(text[: found.start()], text[found.end() :], number):
            return True
    return years.is_year(number) and years.is_vague(text)


def _is_only_number(text: str, number: str) -> bool:
    """Tell whether the text names this one number, as that of a time or a count: in 1945."""
    text = _DAY.sub("", text) if len(number) == 4 else text
    if text.strip(" .*") == number:
        return True
    if NEGATIONS & set(stem_words(text)):
        return False
    numbers = list(re.finditer(r"\d[\d.,]*", text))
    if len(numbers) != 1 or numbers[0].group().rstrip(".,") != number:
        return False
    return (
        re.search(
            r"(?:\b(?:in|is|was|are|were|of|year|en|im|jahr|année|l['’]an|año|в)|[:=]|[于於在是])\s?$",
            text[: numbers[0].start()],
        )
        is not None
    )


def _statement(sentence: str, expected: list[str], asked: set[str]) -> str:
    """Tell how the sentence gives the wanted words as its answer: said, denied or neither."""
    sentence = _CONDITION.sub(" ", _SET_AGAINST.split(sentence)[-1])
    stems = stem_words(sentence)
    places = _runs(stems, expected)
    if not places:
        return "neither"
    before = stems[max(0, places[0] - BEFORE) : places[0]]
    if NEGATIONS & set(before) or _RULED_OUT.search(sentence):
        return "denied"
    for part in (*_COPULA.split(sentence)[1:], *_before_copula(sentence)):
        answer_part = re.split(r",|;|\b(?:because|who|which|that)\b", part)[0]
        if content(_POLITE.sub("", answer_part.strip(" 。.!"))) == expected:
            return "said"
    rest = [stem for stem in content(sentence) if stem not in expected and stem not in asked]
    return "said" if asked and not rest else "neither"


def _before_copula(sentence: str) -> list[str]:
    """Return what stands before the first "is": "Paris is the capital"."""
    parts = _COPULA.split(sentence, maxsplit=1)
    return parts[:1] if len(parts) > 1 else []


def content(text: str) -> list[str]:
    """Return the stems without articles and such words."""
    stems = stem_words(text)
    return [stem for stem in stems if stem not in FILLERS] or stems


def mark_ideas(text: str, marking: Scheme) -> MarkingResult:
    """Return points for every idea that is stated and nowhere denied.

    A wrong statement costs its own points. Ideas in a list of alternatives do not count as stated;
    if a list names everything there is, none is.
    """
    clauses = [
        _Clause(clause)
        for clause in _CLAUSE.split(corrections.without_corrected(text[:LONGEST]))
        if clause and clause.strip()
    ]
    states = {idea: _idea_state(idea, clauses) for idea in (*marking.ideas, *marking.wrong)}
    if names_everything(text, marking):
        states |= {idea: "missing" for idea in marking.ideas if states[idea] == "said"}
    found, denied, missing = (
        [idea for idea in marking.ideas if states[idea] == how]
        for how in ("said", "denied", "missing")
    )
    wrong = [idea for idea in marking.wrong if states[idea] == "said"]
    points = sum(idea.points for idea in found) - sum(idea.points for idea in wrong)
    named = [[idea.any_of[0] for idea in ideas] for ideas in (found, denied, missing, wrong)]
    return MarkingResult(max(0.0, points), *named)


def names_everything(text: str, marking: Scheme) -> bool:
    """Tell whether the answer is a list of short parts most of which are no idea of the scheme."""
    parts = [stem_words(part) for part in _SEPARATOR.split(text[:LONGEST])]
    short = [part for part in parts if part and len(part) <= _MOST_PART_WORDS]
    ways = [stem_words(way) for idea in (*marking.ideas, *marking.wrong) for way in idea.any_of]
    matched = sum(any(_places(part, way) for way in ways) for part in short)
    others = len(short) - matched
    spoken = stem_words(text)
    is_bare = sum(word in FILLERS for word in spoken) <= len(spoken) // 10
    return others >= 3 and others > matched if is_bare else others >= 4 and others >= 2 * matched


class _Clause:
    """Stems of a clause; `has_alternatives`: it names several things, one of which may hold."""

    def __init__(self, text: str) -> None:
        self.stems = stem_words(text)
        self.alternatives = (
            [stem_words(part) for part in _SEPARATOR.split(text) if stem_words(part)]
            if _ALTERNATIVES.search(text)
            else []
        )


def _idea_state(idea: Idea, clauses: list[_Clause]) -> str:
    """Return whether an idea is stated, missing or denied; a denial outweighs a statement."""
    how = "missing"
    ways = [stem_words(way) for way in idea.any_of]
    for way in ways:
        for clause in clauses:
            for place in _places(clause.stems, way):
                if not NEGATIONS & set(way) and _is_denied(clause.stems, way, place):
                    return "denied"
                if not _is_one_of_several(clause, ways):
                    how = "said"
    return how


def _is_denied(stems: list[str], way: list[str], place: int) -> bool:
    """Tell whether a "not" stands before an idea, or within it: "oxygen is not produced"."""
    before = stems[max(0, place - BEFORE) : place]
    places = [stems.index(word, place) for word in way if word in stems[place:]]
    within = set(stems[place : max(places) + 1]) - set(way)
    return bool(NEGATIONS & (within | set(before)) or OF_STATEMENTS & set(stems[:place]))


def _is_one_of_several(clause: _Clause, ways: list[list[str]]) -> bool:
    """Tell whether other things are named beside the idea, with "or" between them."""
    others = [part for part in clause.alternatives if not any(_places(part, way) for way in ways)]
    return len(clause.alternatives) > 1 and bool(others)


def _places(clause: list[str], way: list[str]) -> list[int]:
    """Find where the words of an idea begin: in order, or all of them in a passive clause."""
    found = [place for place in range(len(clause)) if _follows(clause, place, way)]
    if found or len(way) < 2 or not PASSIVE & set(clause):
        return found
    places = [clause.index(word) for word in way if word in clause]
    is_near = len(places) == len(way) and max(places) - min(places) <= len(way) + MOST_BETWEEN + 1
    return [min(places)] if is_near else []


def _follows(clause: list[str], place: int, way: list[str]) -> bool:
    """Tell whether the words of an idea stand from here on, with few others between them."""
    if clause[place] != way[0]:
        return False
    for word in way[1:]:
        place = place + 1
        between = 0
        while place < len(clause) and clause[place] != word:
            between += clause[place] not in FILLERS
            if between > MOST_BETWEEN or clause[place] in NEGATIONS:
                return False
            place += 1
        if place == len(clause):
            return False
    return True


def _runs(stems: list[str], expected: list[str]) -> list[int]:
    return [place for place in range(len(stems)) if _follows(stems, place, expected)]
