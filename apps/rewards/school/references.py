"""Tell whether a short answer gives a reference answer, alone or in a sentence."""

import re
from collections.abc import Sequence

from apps.rewards import corrections, dates, number_words, years
from apps.rewards.altered_numbers import is_altered
from apps.rewards.school import listing, measures, persons, places
from apps.rewards.school.words import (
    ALTERNATIVES,
    BEFORE,
    NEGATIONS,
    SEPARATOR,
    content,
    follows,
    stem,
    stem_words,
)

MAX_NUMBER_LENGTH = 60  # characters of a number in words
MAX_STATEMENT_WORDS = 40  # words of an answer in which a reference is looked for
_COPULA = re.compile(
    r"[:：=]|\s[—–]\s|是|为|は"
    r"|\b(?:is|are|was|were|ist|sind|war|waren"
    r"|est|sont|était|es|son|fue|era|lautet|called|named|known\sas|termed|turns|becomes)\b",
    re.I,
)
_BELIEVED = re.compile(
    r",?\s(?:i|we)\s(?:believe|think|guess|suppose|would say)\s?[.!]?$|,\sof course[.!]?$", re.I
)
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
    r"^(?:(?:คำตอบ)?\s?คือ|c['’](?:est|était)(?=\s)|(?:الجواب|الإجابة|الاجابة)\s(?:هو|هي)"
    r"|(?:هو|هي)(?=\s)|это(?=\s)|ответ\s?[:—-]"
    r"|lo\s(?:escribió|pintó|inventó|compuso|descubrió|dirigió|fundó)(?=\s)"
    r"|(?:정?답)은|答えは|उत्तर(?=\s))\s?",
    re.I,
)
_FRAME_BEHIND = re.compile(
    r"(?<=\w)(?:です|でした|입니다|이다|\sहै|ครับ|ค่ะ|写的|写了它|所著|所作|发明的|画的)\s?[.。!।]?$"
)
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = re.compile(  # the day and the month before a year
    rf"\b(?:on\s)?(?:\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?)?{_MONTH}\.?"
    r"(?:\s\d{1,2}(?:st|nd|rd|th)?,?)?\s(?:of\s)?(?=\d{4}(?!\d))",
    re.I,
)
_REMARK = re.compile(
    r"(?<=\w)\s\((?!(?:or|not|no|if|else|maybe"
    r"|perhaps|possibly|wrong|false|incorrect)\b)[^()]{1,60}\)[.!]?$",
    re.I,
)
_VERDICTS = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
_POLITE = re.compile(r"(?:です|でした|である|だ)$")
_ASKS = re.compile(r"(?:is|are|was|were|could|might|would|can) [^.!?]{1,200}\?[\s*)]*", re.I)
_WHICH = re.compile(r"\b(?:which|what|who|whom|whose|where|when|why|how)\b", re.I)
_ABBREVIATION = re.compile(r"(?:[A-Z]\.?){2,6}")
_BUT = re.compile(r"^(?:it\s(?:is|was)\s|it['’]s\s)?not\s[^,;.]{1,60},?\sbut\s", re.I)
_RULED_OUT = re.compile(
    r"\b(?:is|are|was|were)(?:n['’]t| (?:not|wrong|incorrect|false|impossible)"
    r"| (?:one of )?(?:the|an?) (?:wrong|incorrect|false))\b"
    r"|\b(?:is|are|was|were) never\b"
    r"|\b(?:nie|niemals|keinesfalls|jamais|nunca|никогда)\b",
    re.I,
)
# A clause that sets another answer against the one before it.
_SET_AGAINST = re.compile(
    r";\s(?:now|today|later|then)\s(?=it\s)|,?\s(?:but|however|yet)\s(?=(?:it|that"
    r"|the\s\w{2,20})\s(?:is|was)\b)",
    re.I,
)
# What a question about a way is answered with: by photosynthesis, they use photosynthesis.
_HOW = re.compile(
    r"\bhow\s(?!many|much|old|long|far|big|tall)|\b(?:by|through)\s(?:what|which)\b"
    r"|\bwh(?:at|ich)\s(?:\w+\s)?(?:process|means|method)\b",
    re.I,
)
_BY_MEANS = re.compile(
    r"^(?:through|via|by(?:\smeans\sof)?|using|with\sthe\shelp\sof|thanks\sto"
    r"|(?:they|it|he|she|we)\suses?d?)\s",
    re.I,
)
_POSSESSIVE = re.compile(r"(?<!\b[Ii]t)(?<!\b[Tt]hat)(?<!\b[Hh]e)(?<=\w)['’]s(?=\s+\w)")
_AGENT = re.compile(r"\b(?:is|was|were|been)\s(\w{3,20})\sby\s", re.I)
_DIGIT_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_AGE = re.compile(
    r"^(?:aged?\s|at\s(?:the\s)?age\s(?:of\s)?)?(\d{1,3})(?:\syears?(?:\s(?:old|of\sage))?)?"
    r"(?=[.!]?$)",
    re.I,
)
_ASKS_AGE = re.compile(r"\bold\b|\bage\b", re.I)
_KIND = re.compile(r"\b(?:which|what)\s(\w{3,20})\s", re.I)
_KINDS = re.compile(
    r"\b(ocean|river|sea|lake|mountain|desert|tower|bridge|museum|war|dynasty|empire|effect|prize"
    r"|award|battle|treaty|theorem|island)s?\b",
    re.I,
)
_OTHER_KINDS = {"mountain": "mount"}
_LONG = {"Mt": "Mount ", "St": "Saint "}
_SHORTENED = re.compile(r"\b(Mt|St)\.?\s(?=[A-Z])")
_INITIALS = re.compile(
    r"(?<![A-Za-z.])(?:(?:[A-Z]\.\s?){1,3}[A-Z]\.|(?:[A-Z]\s){1,3}[A-Z](?=\s))(\s?)(?=[A-Z][a-z]|$)"
)
_FIRST = re.compile(r"(?<=[a-z]\s)I(?=\W{0,3}$|,|\s(?:was|is|of|began|ended|reigned|ruled)\b)")
_HAS_DIGIT = re.compile(r"\d")
_IN_YEAR = re.compile(
    rf"(?<=\w),?\s(?:(?:in|on)\s(?:(?:\d{{1,2}}\s)?{_MONTH}\.?\s(?:\d{{1,2}},?\s)?)?"
    rf"(?:of\s)?\d{{4}}"
    r"|from\s\d{4}\s(?:to|until|till)\s\d{4})(?=[.!]?$)",
    re.I,
)
_OR = re.compile(r"\bor\b|\boder\b|还是", re.I)
_OFFERS = re.compile(r"[,;:?]|\bor\b|\boder\b|还是", re.I)
_ASKS_SEVERAL = re.compile(
    r"\b(?:which|what|name|list)\s(?:the\s)?(?:two\s)?(?:\w{1,20}\s)?\w{2,20}[^\Wsiu]s\b", re.I
)
_IN_ORDER = re.compile(
    r"\border\b|sequence|first|last|from\b.{1,60}\bto\b|ranked?|steps|sort", re.I
)
_CONDITION = re.compile(r"\bif\b[^,]{1,200}", re.I)


def is_reference(text: str, reference: Sequence[str], question: str = "") -> bool:
    """Tell whether the text gives a reference answer: alone, as a definition, or in a sentence.

    A reference that is denied, or is one of several alternatives, does not count.
    """
    figures = [
        number_words.in_digits(variant) for variant in reference if len(variant) < MAX_NUMBER_LENGTH
    ]
    in_figures = [number for number in figures if number.isdigit() and number not in reference]
    return any(_gives_reference(text, variant, question) for variant in (*reference, *in_figures))


def _gives_reference(text: str, reference: str, question: str) -> bool:
    if not _ABBREVIATION.fullmatch(reference.strip()):  # "us" is not the U.S.
        reference = _expand_abbreviations(reference)
    expected = content(reference)
    if years.is_year(reference):
        reference, text = years.in_one_form(reference), years.in_one_form(text)
    text = _expand_abbreviations(corrections.last_statement(text))
    if not _HAS_DIGIT.search(reference):
        text = _IN_YEAR.sub("", text)
    text = places.without_place(_ANOTHER.sub("", _BELIEVED.sub("", text.strip())), reference)
    if listing.names_another(text, reference.strip()):
        return False
    text = _REMARK.sub("", text)
    text = _BUT.sub("", _FRAME_BEHIND.sub("", _FRAME_BEFORE.sub("", text)))
    text = _without_emphasis(text, reference)
    if "?" in text and "?" not in reference:
        text = _without_questions(text)
    if not expected or not text:
        return False
    if dates.is_date(text, reference):
        return True
    if measures.is_amount(reference):
        return measures.is_same_amount(text, reference)
    text = persons.with_bare_name(
        _BY_MEANS.sub("", text) if _HOW.search(question) else text, reference
    )
    if len(expected) == 1 and _is_process(text, expected[0]) and not reference.endswith("ation"):
        return False
    if _is_same_list(text, reference, question):
        return True
    reference = _DIGIT_GROUPS.sub("", reference)
    if reference.strip().lower() in _VERDICTS:
        return _is_verdict(text, reference.strip().lower())
    is_number = re.fullmatch(r"\d{1,12}", reference.strip()) is not None
    text = _number_in_digits(text, question) if is_number else text
    if is_number and re.search(rf"(?:^|\s)[-−]{reference.strip()}(?!\d)", text):
        return False
    if years.is_year(reference) and years.alone(text) == reference:
        return True
    if is_number and _is_another_number(text, reference.strip()):
        return False
    if is_number and _is_only_number(text, reference.strip()):
        return True
    if _ASKS.fullmatch(text) or (text.endswith("?") and _WHICH.search(text)):
        return False
    if places.is_same_country(text, reference):
        return True
    if _names_other_offer(text, reference, question):
        return False
    if _same_words(text, reference) or _leaves_out_kind(text, reference, question):
        return True
    return _states_reference(text, reference, expected, question)


def _states_reference(text: str, reference: str, expected: list[str], question: str) -> bool:
    """Tell whether a sentence gives the reference, and none denies it or names another answer."""
    question_stems = set(content(question))
    if _is_cut_name(text, expected) or listing.lists_others(text, reference, question_stems):
        return False
    sentences = [
        sentence
        for sentence in re.split(r"(?<=[^\W\d])[.!?](?=\s|$)|\n|[。！？]", text)
        if stem_words(sentence)
    ]
    if not sentences or len(stem_words(text)) > MAX_STATEMENT_WORDS or ALTERNATIVES.search(text):
        return False
    if re.search(rf"{re.escape(reference.strip())}か|か、?{re.escape(reference.strip())}", text):
        return False
    words = question_stems - _offered_words(question, expected)
    if "'s" not in reference.replace("’", "'"):
        sentences = [_POSSESSIVE.sub(" ownedby", sentence) for sentence in sentences]
    statements = [_statement(sentence, expected, words) for sentence in sentences]
    return "said" in statements and "denied" not in statements


def _expand_abbreviations(text: str) -> str:
    """Write Mt. as Mount, H. G. as HG, and the number I of a name so that it is no pronoun."""
    text = _SHORTENED.sub(lambda match: _LONG[match[1]], text)
    text = _INITIALS.sub(lambda match: re.sub(r"[.\s]", "", match[0]) + match[1], text)
    return _FIRST.sub("I1", text)


def _without_questions(text: str) -> str:
    """Leave out questions, which state nothing."""
    sentences = re.split(r"(?<=[.!?。！？])\s*", text)
    return " ".join(sentence for sentence in sentences if sentence and sentence[-1] not in "?？")


def _is_process(text: str, expected: str) -> bool:
    """Tell whether the text names the process, not the thing: oxygenation, not oxygen."""
    words = re.findall(r"\w+", text[:MAX_NUMBER_LENGTH].lower())
    return any(word.endswith(("ation", "ations")) and stem(word) == expected for word in words)


def _number_in_digits(text: str, question: str) -> str:
    """Write numbers in digits, without "years old" where an age is asked for."""
    if len(text) > 4 * MAX_NUMBER_LENGTH:
        return text
    text = _DIGIT_GROUPS.sub("", number_words.in_digits(text))
    return _AGE.sub(r"\1", text) if _ASKS_AGE.search(question) else text


def _offered_words(question: str, expected: list[str]) -> set[str]:
    """Return the words of the other answers that the question offers: even, odd or neither."""
    parts = [stem_words(part) for part in _OFFERS.split(question)] if _OR.search(question) else []
    if not any(set(expected) <= set(part) for part in parts):
        return set()
    short = [part[-len(expected) :] for part in parts]
    return {word for part in short for word in part} - set(expected)


def _names_other_offer(text: str, reference: str, question: str) -> bool:
    """Tell whether the text also names what else the question offers: left or right?"""
    parts = [stem_words(part) for part in _OFFERS.split(question)] if _OR.search(question) else []
    words = stem_words(reference)
    offers = {part[-1] for part in parts if part}
    if not offers & set(words[-1:]):
        return False
    stems = set(stem_words(text))
    return bool((offers - set(words)) & stems) and not NEGATIONS & stems


def _is_same_list(text: str, reference: str, question: str) -> bool:
    """Tell whether the text lists the same items, in any order unless one is asked for."""
    expected = _items(reference)
    least = 2 if _ASKS_SEVERAL.search(question) else 3
    if len(expected) < least or _IN_ORDER.search(question) or ALTERNATIVES.search(text):
        return False
    answer_items = _items(_COPULA.split(text.strip(" .!*"))[-1])
    return len(answer_items) == len(expected) and sorted(answer_items) == sorted(expected)


def _items(text: str) -> list[list[str]]:
    if NEGATIONS & set(stem_words(text)):
        return []
    return [content(part) for part in SEPARATOR.split(text) if content(part)]


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
        bare = _bare_text(text)
        names = [word for word in reference.split() if word[:1].isupper() and word[-1:] == "s"]
        return len(expected) > 1 or not names or bare.endswith("s")
    if is_abbreviation := _ABBREVIATION.fullmatch(reference.strip()):
        letters = is_abbreviation.group().replace(".", "")
        return re.sub(r"^[Tt]he\s", "", text.strip(" *")).replace(".", "") == letters
    if len(text) > MAX_NUMBER_LENGTH:
        return False
    number = number_words.in_digits(_bare_text(reference))
    return number.isdigit() and number_words.in_digits(_bare_text(text)) == number


def _is_cut_name(text: str, expected: list[str]) -> bool:
    """Tell whether the text is the name alone without its last letter: "Pari" is not Paris."""
    return stem_words(text) == expected


def _leaves_out_kind(text: str, reference: str, question: str) -> bool:
    """Tell whether only the kind in the question is missing: which ocean? The Pacific."""
    answer_stems = content(text)
    expected = content(reference)
    if _OR.search(question) or not reference[:1].isupper() or len(expected) < 2:
        return False
    kinds = {stem(kind.lower()) for kind in _KINDS.findall(question)}
    if kind := _KIND.search(question):
        kinds.add(stem(kind[1].lower()))
    kinds |= {_OTHER_KINDS[kind] for kind in kinds if kind in _OTHER_KINDS}
    return any(expected in ([*answer_stems, name], [name, *answer_stems]) for name in kinds)


def _bare_text(text: str) -> str:
    return text.strip(" .!*_\"'“”„«»‘’「」『』").casefold()


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


def _is_another_number(text: str, number: str) -> bool:
    """Tell whether the words around the number change it, or make it an uncertain year."""
    for match in re.finditer(rf"(?<!\d){number}(?!\d)", text):
        if is_altered(text[: match.start()], text[match.end() :], number):
            return True
    return years.is_year(number) and years.is_vague(text)


def _is_only_number(text: str, number: str) -> bool:
    """Tell whether the text names this one number, as that of a time or a count: in 1945."""
    text = _DAY.sub("in ", text) if len(number) == 4 else text
    if text.strip(" .*") == number:
        return True
    if NEGATIONS & set(stem_words(text)):
        return False
    numbers = list(re.finditer(r"\d[\d.,]*", text))
    if len(numbers) != 1 or numbers[0].group().rstrip(".,") != number:
        return False
    return (
        re.search(
            r"(?:\b(?:in|is|was|are|were|of|year|en|im|jahr|année|l['’]an|año|в)"
            r"|has|have|had|contains?"
            r"|takes?|lasts?|hat|haben|tiene[ns]?|[:=]|[于於在是有])\s?$",
            text[: numbers[0].start()],
            re.I,
        )
        is not None
    )


def _statement(sentence: str, expected: list[str], question_stems: set[str]) -> str:
    """Return whether the sentence gives the expected words as its answer: said, denied, neither."""
    sentence = _CONDITION.sub(" ", _SET_AGAINST.split(sentence)[-1])
    sentence = _without_agent_verb(sentence, question_stems)
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
    other_stems = [
        stem for stem in content(sentence) if stem not in expected and stem not in question_stems
    ]
    return "said" if question_stems and not other_stems else "neither"


def _without_agent_verb(sentence: str, question_stems: set[str]) -> str:
    """Leave out the question's verb in front of "by": who wrote it? It was written by …"""
    agent = _AGENT.search(sentence)
    if agent is None:
        return sentence
    verb = agent[1].lower()
    remaining_stems = question_stems - set(stem_words(sentence))
    if stem(verb) not in question_stems and not any(
        word[:2] == verb[:2] for word in remaining_stems
    ):
        return sentence
    return sentence[: agent.start(1)] + sentence[agent.end(1) :]


def _before_copula(sentence: str) -> list[str]:
    """Return what stands before the first "is": "Paris is the capital"."""
    parts = _COPULA.split(sentence, maxsplit=1)
    return parts[:1] if len(parts) > 1 else []


def _runs(stems: list[str], expected: list[str]) -> list[int]:
    return [place for place in range(len(stems)) if follows(stems, place, expected)]
