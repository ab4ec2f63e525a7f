"""Find an answer that nothing marks: in what the last line says, in seven languages.

What follows "the answer is", "A:" or 答案是; else of the last sentence the formula, or the relation
with its last "=", or its one number; else the sentence itself.
"""

import re

from apps.rewards import corrections, number_words
from apps.rewards.altered_numbers import is_altered

MAX_ANSWER_LENGTH = 2_000  # characters of one answer
LINES = 8  # from the end, in which an announced answer may be followed by other words
_WORD = re.compile(r"[^\W\d_]{2,}")
_ANNOUNCED = re.compile(
    r"(?<![^\W_])(?:answers?|ans|results?|solutions?|equation|formula|antwort|endergebnis|ergebnis"
    r"|lösung|resultat|roots|zeros|zeroes|réponses?|résultat"
    r"|respuestas?|resultado|solución|resposta|risposta"
    r"|ответ|результат|решение|उत्तर|जवाब)(?![^\W_])"
    r"|\b(?:correct|right|best)\s(?:option|choice)\b|答案|回答|最终结果|结果|答え|解答|正解|答えは|정답|답|คำตอบ|故选|应选"
    r"|选(?=\s?\(?[A-J](?![A-Za-z]))",
    re.I,
)
# A name such as "A:" at the beginning of a line, as worked solutions have it.
_LETTER = re.compile(
    r"[ \t>*_#-]{0,8}(?:A|R|Answer|Ans|答|解|Ответ)\**[ \t]?[:：.]\**(?=[ \t]|\d|\$|\\)"
)
# A line that gives the answer and nothing else.
_SHORT_LABEL = re.compile(r"[*_#>\s]{0,6}(?:final\s)?answer[*_\s]{0,4}[:：][^=\n]{1,40}", re.I)
_COPULA = re.compile(
    r"\*{0,3}\s{0,3}(?:"
    r"[:：=]|(?:is|are|was|equals?|be|becomes|ist|sind|lautet|beträgt|est|sont|vaut|es|son|é|è"
    r"|равен|равна|равно|составляет)(?![^\W_])|[—–-](?=\s)|คือ|就是|应该是|應為|是|为|為|选|は|が|은|는)"
    r"(?:\s{0,3}(?:[:：=](?!=)|equal to\b|equals\b|also\b|therefore\b|thus\b|then\b|simply\b))?",
    re.I,
)
_MAX_BETWEEN = 60  # characters between "answer" and "is"
_END_OF_SENTENCE = re.compile(
    r"(?<=[^\W_])[.!?](?=\s+[A-ZÄÖÜÀ-ÝА-Я«\"*(]|\s*$)"
    r"|(?<=[)}\]$\d%°*])(?:[.?](?=\s|$)|!(?=\s+[A-ZÄÖÜÀ-ÝА-Я«\"*]|\s*$))|[。！？।]"
)
_LEAD = re.compile(
    r"^(?:[∴⇒→\s]{1,4}|[=-]>\s?)|"
    r"^(?:(?:so|thus|hence|therefore|then|finally|and|(?:we|i)\s+(?:get|got|have|find)|it\s+is"
    r"|it['’]s|this\s+is|es\sist|das\sist|c['’]est|es(?=\s[A-ZÁÉÍÓÚÑ\d])|это|是"
    r"|equals?|also|daher|somit|donc|ainsi|por\s+lo\s+tanto|entonces|因此|所以|故|よって"
    r"|したがって|итак|значит|следовательно)"
    r"(?![^\W_])[\s,:，]*){1,3}",
    re.I,
)
_TRAILING = re.compile(
    r"(?:(?<=\w)\s\((?:since|because|as|given|for)\s[^()]{1,80}\)"
    r"|\b(?:as (?:required|desired|claimed|needed|wanted|expected|asked)|q\.?e\.?d|(?:is|are)"
    r" (?:the|our|my) (?:final |correct |required |desired )?(?:answer|solution|result|value)s?"
    r"|respectively)|∎|□|です|となります|になります|である|입니다|이다|है|हैं|ครับ|ค่ะ)$",
    re.I,
)
# Runs of digits are possessive: what follows a part of a run is a digit, which the end forbids.
_NUMBER = re.compile(
    r"(?<![\w.,^])[-+]?(?:[$€£¥]\s?)?[-+]?(?:\d++(?:,\d++)*+(?:\.\d++)?|\.\d++)(?:/\d++)?\s?%?"
    r"(?!\w*\d)"
)
_MEASURED = re.compile(_NUMBER.pattern + r"\s?(?:[€£¥$]|[a-zA-Zµ°]{1,3}[²³]?)?")
_LABELLED = re.compile(r"[A-Za-z][A-Za-z ]{0,30}:\s?(" + _MEASURED.pattern + ")")
# A number with the word that counts in Chinese or Japanese.
_CYRILLIC = re.compile(r"[а-яё]{3}", re.I)
_SCALE_IN_RUSSIAN = re.compile(
    r"\s?(?:тысяч[аи]?|тыс|млн|миллион(?:а|ов)?|млрд|миллиард(?:а|ов)?)(?!\w)"
)
_COUNTED = re.compile(
    r"(?:[\u3040-\u30ff\u4e00-\u9fff]{1,20})?(-?\d{1,30}(?:\.\d{1,30})?[万萬亿億]?)"
    r"(?![万萬亿億])[\u3040-\u30ff\u4e00-\u9fff]{1,20}"
)
# The last clause of a sentence, where it gives the total or the only number.
_CLAUSE_IN_CJK = re.compile(r"[、，；]")
_TOTAL_IN_CJK = re.compile(
    r"合計|合计|全部で|一共|总共|總共|共|总计|総計|故|所以|因此|よって|したがって|つまり"
)
_DENIED_IN_CJK = re.compile(r"[不没非無]|ない|なく|ありません|じゃな")
_SO = re.compile(r"\b(?:so|therefore|thus|hence)\b", re.I)
_MONEY_IN_FORMULA = re.compile(r"[$€£¥]\s?\d[^=]{0,100}=")
_VERBS = (
    " ist ",
    " est ",
    " es ",
    " beträgt ",
    " vaut ",
    " is ",
    " are ",
    " equals ",
    " makes ",
    " gives ",
    " costs ",
    " pays ",
    " gets ",
    " was ",
)
_SPAN = re.compile(
    r"\$\$([^$]{1,600}?)\$\$|(?<![\\$])\$\s([^$]{1,600}?)\s\$"
    r"|(?<![\\$])\$(?=[^\s$])((?:[^$\\]|\\.){0,600}?)(?<=\S)\$(?!\d)"
    r"|\\\((.{1,600}?)\\\)|\\\[(.{1,600}?)\\\]|\*\*([^*\n]{1,200})\*\*"
)
_BETWEEN_SPANS = re.compile(r"\s*(?:,|;|and|or|und|oder|et|ou|y|和|或|、|，|и|или|,\s*and)\s*")
_UNIT_BEHIND = re.compile(
    r"\s?(?:\\?%|°|percent|per cent|pct"
    r"|[A-Za-zµ°]{1,14}(?![^\W\d_])(?:[\^/][\w/{}^-]{1,8})?)"
)
_DENIAL = re.compile(
    r"(?:not|never|nicht|kein\w{0,2}|pas|non|no(?=\s(?:es|son|fue)\b)|не|不)(?![^\W_])|不", re.I
)
_DENIED = re.compile(
    r"(?:(?<![^\W_])(?:not|never|cannot|nicht|keine?|pas|non|не|no(?=\s(?:es|son)\s))"
    r"|n['’]t|不是|不)(?:\s(?!(?:so|that|because|then|but|and|if|only|just)\b)[a-z]{2,12}){0,2}"
    r"\s?[$*(\\]{0,3}$",
    re.I,
)
# Words behind a value that is not the answer.
_RULED_OUT = re.compile(
    r"[\w$)}\]*]\s(?:is|are|was|were)\s(?:clearly\s|also\s|thus\s|therefore\s)?(?:impossible|wrong"
    r"|incorrect|false|invalid|extraneous|excluded|rejected|ruled out|not (?:possible|valid|allowed"
    r"|correct|right|a solution|the (?:answer|solution)|an answer))\b"
    r"|[\w$)}\]*]\s(?:does(?: not|n['’]t)|fails to) (?:work|hold|satisfy|fit)\b"
    r"|不可能|不成立|不符合",
    re.I,
)
# What is set against the answer behind it: 61, not 62.
_ANOTHER = re.compile(
    r"(?<=[\w$)}%°*])(?:,\s(?:and\s)?not\s[^,;=]{1,40}|\s\((?:and\s)?not\s[^()]{1,40}\))$", re.I
)
_MINUS = re.compile(r"\b(?:minus|negative)\s(?=\d)(?<!\d\sminus\s)", re.I)
_HEDGED = re.compile(r"\b(?:maybe|perhaps|possibly|might|could)\b", re.I)
_PARTS = re.compile(r"[,;]\s(?:(?:and|so|but|hence|thus|therefore)\s)?")
_TIME_OF_DAY = re.compile(r"(?<![\w:.,])\d{1,2}:[0-5]\d\s?[ap]\.?m(?!\w)", re.I)
_NEGATED = re.compile(r"\b(?:not|never|no|cannot)\b|n['’]t\b", re.I)
_NAMED = re.compile(
    r"(?:[A-Z][a-z]{0,20}(?:\s[a-z]{1,20}){0,8}\s(?:is|was|be)|It\s(?:will\sbe|is|was))\s"
    r"([A-Z][a-z]{2,20})"
)
_AT = re.compile(r"(?:^|\b(?:at|is|was|be)\s|:\s)[*$\s]{0,4}$", re.I)
_IN_WORDS = re.compile(r"(?<=[\d%])\s\(([a-zA-Z][a-zA-Z -]{2,40})\)$")
_IN_DIGITS = re.compile(r"([a-zA-Z][a-zA-Z -]{2,40})\s\((\d{1,20})\)")
_MARKS = "✓✔✅☑🎉 "
# A decimal that goes on, whose dots end no sentence; the rows of a matrix in lines of their own.
_GOES_ON = re.compile("|".join(rf"(?<=\.\d{{{places}}})\.\.\." for places in range(2, 17)))
_PLUS_OR_MINUS = re.compile(r"\bplus or minus\s(?=[\d$\\])", re.I)
_ROWS = re.compile(r"\],\s{0,4}\n\s{0,8}\[")
# A question at the end: "Is it 42?" gives no answer, and "Does that help?" follows one.
_QUESTION = re.compile(r"(?:^|(?<=[.!。！*$)]))\s{0,2}([^.!?。！？]{1,200})[?？][\s*_)]{0,4}$")
_GIVEN_UP = re.compile(
    r"\b(?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t)"
    r" (?:know|tell|say|solve|determine)\b",
    re.I,
)
_DOUBTED = re.compile(
    r"\bI doubt\b|\b(?:is|it['’]s) (?:very |highly )?(?:unlikely|doubtful)\b"
    r"|\b(?:wrong|incorrect|false) (?:answer|result|value)s? (?:is|are|was|would be)\b",
    re.I,
)
_SAYS_IN_CHINESE = re.compile(r"(?:等于|就是|是|为|為|得到?)\s?(?=[-\d$(\\√π{])")
_TIMES = re.compile(r"(?<=[\d)%])\s?[xX]\s?(?=[\d($])")
# An unknown with a number, a power or a sign beside it: 3x, x + 5, y^2.
_UNSOLVED = re.compile(
    r"\d\s?[a-zA-Z](?![a-zA-Z])|(?<![a-zA-Z])[a-zA-Z]\s?[-+*/^]|[-+*/]\s?[a-zA-Z](?![a-zA-Z])"
)
_NEARLY = re.compile(
    r"(?<![^\W_])(?:nearly|almost|close\sto|just\s(?:under|over|below|above|short\sof)|beinahe"
    r"|presque|casi|почти)\s[$€£*(\\]{0,4}$",
    re.I,
)
_HEADING = re.compile(r"^#{1,6}\s+")
_BOLD_RESULT = re.compile(r"=\s?\*\*([^*=]{1,60})\*\*")
# A ratio that ends a sentence: the ratio is 3:4.
_RATIO = re.compile(
    r"[^\W\d_][^\d:]{0,100}\s(\d{1,9}(?:\.\d{1,9})?(?:\s?:\s?\d{1,9}(?:\.\d{1,9})?){1,4})"
)
# A point or an interval that ends a sentence: the lines meet at (1, 2).
_PLACE = re.compile(
    r"[^\W\d_](?:[^\d()\[\]]{0,80}[^\W\d_:,])?[\s:]{1,3}"
    r"([(\[]\s?-?[\d./]{1,12}(?:\s?,\s?-?[\d./]{1,12}){1,3}\s?[)\]])"
)
_NONE_OF = re.compile(r"(?:none|neither|nothing|nobody|no\s\w{1,20})\b(?!:)", re.I)
_INFINITE = re.compile(
    r"^[^\d∞]{1,200}\s(?:is|equals|be|approaches|to)\s"
    r"((?:positive\s|negative\s|minus\s|plus\s|[-+−])?(?:infinity|∞))",
    re.I,
)
# A formula without dollars that ends a sentence: the probability is \frac{3}{8}.
_IN_LATEX = re.compile(
    r"^[^\d\\$=]{1,200}\s(?:is|equals|be|ist|est|es)\s"
    r"(-?\d{0,9}\\(?:[dt]?frac|sqrt|pi|binom|log|ln)(?![a-z])"
    r"(?:[^a-zA-Z]|\\[a-z]{1,12}|[a-zA-Z](?![a-zA-Z])){0,200})"
)
_NOT_QUITE = re.compile(r"\b(?:not|never|nearly|almost|than|least|most)\b", re.I)
# A number in words that ends a sentence, but for what is counted: there are three apples.
_SPELLED = re.compile(
    r"^[^\d.?!]{1,120}\s(?:is|are|was|were|equals|has|have|needs?|gets?|makes?|earns?|pays?"
    r"|sells?)\s"
    r"(?:exactly\s|just\s|only\s)?([a-z][a-z-]{2,20}(?:\s[a-z-]{3,20}){0,4})",
    re.I,
)
# What makes more of a number in front of it.
_TIMES_PI = re.compile(r"\s?\*?\s?(?:π|\\pi(?![a-z])|pi(?![^\W_]))")
_LINKS = frozenset(("and", "or", "und", "oder", "et", "ou", "или"))
_STOPS = frozenset(
    (
        "in",
        "as",
        "is",
        "are",
        "and",
        "or",
        "of",
        "for",
        "a",
        "the",
        "to",
        "at",
        "on",
        "by",
        "per",
        "each",
        "left",
        "more",
        "total",
        "altogether",
        "now",
        "which",
        "that",
        "because",
        "since",
        "so",
        "i",
        "it",
        "we",
        "this",
        "y",
    )
)


def list_answers(text: str) -> list[str]:
    """List what the text gives as the answer; different ones are several answers."""
    if minerva := _minerva_answer(text[-4 * MAX_ANSWER_LENGTH :]):
        return [minerva]
    if len(text.strip().rpartition("\n")[2]) > MAX_ANSWER_LENGTH:
        return []
    text = corrections.last_statement(text[-4 * MAX_ANSWER_LENGTH :].strip())
    text = _PLUS_OR_MINUS.sub("±", _GOES_ON.sub("…", _ROWS.sub("], [", text)))
    lines = [_HEADING.sub("", line.strip()) for line in text.splitlines()]
    lines = [
        line for line in lines if re.search(r"[\w∞∅]", line) and len(line) <= MAX_ANSWER_LENGTH
    ]
    if not lines:
        return []
    if question := _QUESTION.search(lines[-1]):
        if re.search(r"[\d$\\=]", question[1]):
            return []
        lines[-1] = lines[-1][: question.start()]
        lines = lines if re.search(r"\w", lines[-1]) else lines[:-1]
        if not lines:
            return []
    if _DOUBTED.search(_last_sentence(lines[-1])):
        return []
    if lines[-1].endswith("?") and _HEDGED.search(_last_sentence(lines[-1])):
        return []
    if answers := _announced_answers(lines[-1]):
        return answers
    if _is_prose(lines[-1]):
        for line in reversed(lines[-LINES:-1]):
            if answers := _announced_answers(line):
                return answers
    for line in reversed(lines[-LINES:-1]):  # an explanation may follow
        if (label := _SHORT_LABEL.fullmatch(line)) and (
            answers := _announced_answers(label.group())
        ):
            return answers
    last = _last_sentence(lines[-1])
    if _GIVEN_UP.search(last) or (last.rstrip(" *)").endswith("?") and _HEDGED.search(last)):
        return []
    whole = _reduce_sentence(last)
    return [whole] if whole else []


def _minerva_answer(text: str) -> str:
    """Return what stands between "Final Answer:" and "I hope it is correct", the last time."""
    end = text.rfind("I hope it is correct")
    start = max(text.rfind("Final Answer", 0, end), text.rfind("final answer", 0, end))
    if end < 0 or start < 0:
        return ""
    answers = text[start:end].strip()
    announced = (
        _announced_answers(answers)
        if len(answers) <= MAX_ANSWER_LENGTH and "\n\n" not in answers
        else []
    )
    return announced[-1] if announced else ""


def is_denied(before: str) -> bool:
    """Tell whether the words before an answer end with a "not"."""
    return bool(_DENIED.search(before[-40:]))


def _is_prose(line: str) -> bool:
    """Tell whether a line is a polite closing: only words, no number or formula."""
    return len(_WORD.findall(line)) > 3 and not re.search(r"[\d$\\=]", line)


def _announced_answers(line: str) -> list[str]:
    """List each text that follows "the answer is" in this line."""
    starts = [match.end() for match in _ANNOUNCED.finditer(line)]
    answers: list[str] = []
    if letter := _LETTER.match(line):
        answers.append(line[letter.end() :])
    for place, start in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else len(line)
        copula = _copula(line, start, end)
        if copula is not None and not _DENIAL.search(line[start:copula]):
            answers.append(line[copula:])
    answers = [answer for answer in answers if not _DENIAL.match(answer.lstrip(" *:"))]
    shortened = [_reduce_sentence(_first_sentence(answer)) for answer in answers]
    readable = [answer for answer in shortened if answer and re.search(r"[\w∞∅]|\\", answer)]
    return list(dict.fromkeys(readable))


def _copula(line: str, start: int, end: int) -> int | None:
    """Return where the answer begins: after "is", or at `start`; None if neither holds."""
    if match := _COPULA.match(line, start):
        return match.end()
    start += line[start : start + 1] in ("]", "】")
    between = line[start : min(end, start + _MAX_BETWEEN)]
    if re.match(r"\s{0,3}(?:\*\*)?\s{0,3}(?:[-\d$(\\]|[A-J](?![A-Za-z]))", between):
        return start
    for match in _COPULA.finditer(line, start, min(end, start + _MAX_BETWEEN)):
        before = line[match.start() - 1 : match.start()]
        if "." in line[start : match.start()]:
            return None
        if not (before.isalnum() and match.group()[0].isascii() and match.group()[0].isalpha()):
            return match.end()
    return None


def _first_sentence(text: str) -> str:
    text = re.sub(r"^[\s*_:：=]+", "", text)
    sentence_end = _END_OF_SENTENCE.search(text)
    return text[: sentence_end.start()] if sentence_end else text


def _last_sentence(line: str) -> str:
    """Cut off the sentences before the last one."""
    ends = [match.end() for match in _END_OF_SENTENCE.finditer(line.rstrip(" .。!*"))]
    last = line[ends[-1] :] if ends else line
    return last if re.search(r"\w", last) else line


def _reduce_sentence(sentence: str) -> str:
    """Return the answer that a sentence gives; the whole sentence if that is not clear."""
    if _RULED_OUT.search(sentence):
        parts = [part for part in _PARTS.split(sentence) if part and not _RULED_OUT.search(part)]
        if not parts:
            return ""
        sentence = parts[-1]
    sentence = _BOLD_RESULT.sub(r"= \1", sentence)  # 6 × 7 = **42**
    sentence = _ANOTHER.sub("", strip_marks(sentence))
    text = strip_marks(_TRAILING.sub("", strip_marks(sentence).rstrip()).rstrip(" ,;"))
    text = strip_marks(_TRAILING.sub("", _LEAD.sub("", text).rstrip()).rstrip(" ,;"))
    if worded := _IN_WORDS.search(text):  # 12 (twelve)
        in_digits = number_words.in_digits(worded[1])
        text = text[: worded.start()] if in_digits.isdigit() else text
    if (in_both := _IN_DIGITS.fullmatch(text)) and number_words.in_digits(in_both[1]) == in_both[2]:
        return in_both[2]
    if time := _only_time(sentence):
        return time
    if spans := _last_span(text):
        return spans
    for form in (_PLACE, _RATIO):
        place = form.fullmatch(text)
        if place and not _NEGATED.search(text[: place.start(1)]):
            before = text[: place.start(1)]
            return text if _NEARLY.search(before) or is_altered(before, "") else place[1]
    return _reduce_text(text)


def _reduce_text(text: str) -> str:
    """Return the answer that the text of a sentence gives, without what leads to it or follows."""
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) == 1 and _is_changed(text, numbers[0]):
        return text
    if chinese := list(_SAYS_IN_CHINESE.finditer(text)):
        if is_denied(text[: chinese[-1].end()].rstrip()):
            return ""
        text = strip_marks(text[chinese[-1].end() :])
    text = _last_total(text)
    if (counted := _COUNTED.fullmatch(text)) and not _DENIED_IN_CJK.search(text):
        return text if is_altered("", text[counted.end(1) :]) else counted[1]
    if chinese:
        return text
    text = _MINUS.sub("-", text)
    words = _WORD.findall(re.sub(r"\\[a-zA-Z]+", " ", text))
    if _NONE_OF.match(text):
        return text
    for form in (_INFINITE, _IN_LATEX):
        ending = form.fullmatch(text)
        if ending and not _NOT_QUITE.search(text[: ending.start(1)]):
            return ending[1]
    if in_figures := _in_words(text):
        return in_figures
    for verb in _VERBS:  # 25 + 9 is 34
        before, _, behind = text.rpartition(verb)
        measured = strip_marks(behind)
        if verb in text and _MEASURED.fullmatch(measured) and not is_denied(before + verb):
            return measured
    if (name := _NAMED.fullmatch(text)) and not _NEGATED.search(text):  # The winner is Alice
        return name[1]
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) == 1 and _CYRILLIC.search(text) and not is_denied(text[: numbers[0].start()]):
        scale = _SCALE_IN_RUSSIAN.match(text, numbers[0].end())
        return numbers[0].group().strip() + (scale.group() if scale else "")
    content_words = [word for word in words if word.lower() not in _LINKS]
    if "=" in text and content_words and not re.search(r"=[^=]*[,;][^=]*=", text):
        return _relation(text)
    if not words and _MONEY_IN_FORMULA.search(text):  # 9 × $2 = $18
        return _relation(text)
    if len(words) < 3 and not _is_named_number(text):
        label = _LABELLED.fullmatch(text)
        return label[1] if label else _TIMES.sub("*", text) if "=" in text else text
    if label := _LABELLED.fullmatch(text):
        return label[1]
    if len(list(_NUMBER.finditer(text))) > 1 and (clauses := list(_SO.finditer(text))):
        text = text[clauses[-1].end() :]
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) == 1 and is_denied(text[: numbers[0].start()]):
        return ""
    if len(numbers) == 1:
        return _with_unit(text, numbers[0])
    return text


def _in_words(text: str) -> str:
    """Return in digits the number in words, with its unit, that ends a sentence."""
    match = _SPELLED.fullmatch(text)
    if match is None or _NEGATED.search(text) or _HEDGED.search(text):
        return ""
    figures = number_words.in_digits(match[1])
    number = re.fullmatch(r"(\d{1,20})((?:\s[a-z]{3,20}){0,3})", figures)
    before = text[: match.start(1)]
    if number is None or _NEARLY.search(before) or is_altered(before, number[2]):
        return ""
    words = number[2].split()
    return number[1] if len(words) > 1 or set(words) & _STOPS else figures


def _last_total(text: str) -> str:
    """Return the last clause of a Chinese or Japanese sentence, if it gives the result."""
    *before, last = _CLAUSE_IN_CJK.split(text)
    if not before or not _COUNTED.fullmatch(last):
        return text
    is_only_one = not any(re.search(r"\d", clause) for clause in before)
    return last if is_only_one or _TOTAL_IN_CJK.match(last) else text


def _is_changed(text: str, number: re.Match) -> bool:
    before, behind = text[: number.start()], text[number.end() :]
    return bool(_NEARLY.search(before[-40:])) or is_altered(before, behind, number.group())


def _only_time(sentence: str) -> str:
    """Return the only time of day, if there is no other number: 10:30 a.m."""
    times = list(_TIME_OF_DAY.finditer(sentence))
    before = sentence[: times[0].start()] if times else ""
    if len(times) != 1 or _NEGATED.search(before) or not _AT.search(before):
        return ""
    other_text = before + sentence[times[0].end() :]
    is_only = not re.search(r"\d", other_text) and not is_altered("", sentence[times[0].end() :])
    return times[0].group() if is_only else ""


def _is_named_number(text: str) -> bool:
    """Tell "Bea pays $61" from "61 dollars": words, one number with its sign of money, a word."""
    return bool(
        re.fullmatch(
            r"[^\W\d_](?:[^\W\d_]|[ ,'’]){0,60}[ :]{1,2}-?[$€£]?\d[\d,.]{0,30}%?"
            r"(?: ?[€£$]| [^\W\d_]{1,20})?",
            text,
        )
    ) and not re.match(r"[A-Za-z] ", text)


def _last_span(text: str) -> str:
    """Return the last formula in dollars or bold, where it ends the sentence."""
    spans = list(_SPAN.finditer(text))
    if not spans:
        return ""
    behind = text[spans[-1].end() :].strip(" .,;:!*")
    word = re.sub(r"^(?:square|cubic|sq\.) (?=\w)", "", behind)
    unit = behind if behind and _UNIT_BEHIND.fullmatch(word) else ""
    if behind and not unit:
        return ""
    chosen = [_span_text(spans[-1])]
    for before, after in zip(reversed(spans[:-1]), reversed(spans[1:]), strict=True):
        if not _BETWEEN_SPANS.fullmatch(text[before.end() : after.start()]):
            break
        chosen.insert(0, _span_text(before))
    joined = ", ".join(chosen)
    lead = text[: spans[-len(chosen)].start()]
    is_near = _NEARLY.search(lead[-40:])
    if is_near or is_denied(lead) or is_altered(lead, f" {behind}" if behind else ""):
        return ""
    if re.search(r"[\d)}]\s?[-+*/=^]\s*$|=\s*$", lead) and not _WORD.search(lead):
        return ""
    return f"{joined} {unit}".strip() if unit.lower() not in _STOPS else joined


def _span_text(span: re.Match) -> str:
    return strip_marks(next(group for group in span.groups() if group is not None))


def _relation(text: str) -> str:
    """Return the number after the last "=", or the formula around it without other words."""
    left, _, right = text.rpartition("=")
    right = right.strip()
    words = list(
        _WORD.finditer(re.sub(r"\\[a-zA-Z]+", lambda command: "\\" * len(command.group()), left))
    )
    name = (left[words[-1].end() :] if words else left).strip(" ,:;.)'")
    number = _NUMBER.match(right)
    behind = right[number.end() :].strip(" .,") if number else "-"
    if number and not re.match(r"[-+*/^(\\=]", behind):
        right = _with_unit(right, number) if behind else right
        if not _UNSOLVED.search(_TIMES.sub("*", name)):
            return strip_marks(right)
    if not name or not re.search(r"\w|\\", name):
        return strip_marks(right)
    return strip_marks(f"{name} = {right}")


def _with_unit(text: str, number: re.Match) -> str:
    """Return the number with the unit behind it, where one word follows that may be one."""
    behind = text[number.end() :]
    if _TIMES_PI.match(behind):
        return f"{number.group().strip()}π"
    unit_match = _UNIT_BEHIND.match(behind)
    if not unit_match:
        return number.group().strip()
    word = unit_match.group().strip()
    if not word or word.lower() in _STOPS or re.match(r"\s+\w", behind[unit_match.end() :]):
        return number.group().strip()
    return f"{number.group().strip()} {word}"


def strip_marks(text: str) -> str:
    """Remove spaces, bold, a final stop and the dollars of mathematics around a text."""
    text = text.strip(_MARKS).strip("*_`").strip().rstrip(";,.。，；").strip().strip("*`").strip()
    text = re.sub(r"(?<=[a-zA-Z])!+$", "", text)
    text = re.sub(r"^\s*(?:is|:)\s+", "", text)
    for left, right in (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")):
        inside = text[len(left) : -len(right)]
        is_around = text.startswith(left) and text.endswith(right) and left not in inside
        if len(text) > len(left) + len(right) and is_around:
            return inside.strip().rstrip(".").strip()
    return text
