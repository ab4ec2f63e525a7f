"""Tell the language of a text by its script, its special letters and its most common words.

What these do not decide is not guessed.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache

MAX_TEXT_LENGTH = 20_000  # characters that are read
MIN_LETTERS = 2
MIN_WORDS = 2  # common words of a language, and so many more than of any other
SCRIPTS = {
    "THAI": "th",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "TELUGU": "te",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "GREEK": "el",
    "HEBREW": "he",
    "HANGUL": "ko",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "CJK": "zh",
}
# Letters that others with the same script do not have.
LETTERS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "CYRILLIC": (("uk", "іїєґ"), ("ru", "ыэё"), ("bg", "ъ")),
    "ARABIC": (("ur", "ٹڈڑںےھ"), ("fa", "پچژگ"), ("ar", "ةىإأؤئ")),
}
# The commonest short words of languages that share a script.
WORDS: Mapping[str, Mapping[str, str]] = {
    "LATIN": {
        "en": "the and of to is in that it for with are this you as be on was have not but",
        "de": "der die das und ist nicht ein eine zu den mit von sich auf für dem auch im wie es",
        "fr": "le la les des et est une un que qui dans pour pas du au sur avec ce il elle",
        "es": "el la los las que y es en una un por con para no se del como su al más",
        "pt": "o os as que e é em uma um por com para não se do da como dos na mais",
        "it": "il la che e di un una è per con non sono gli del della anche nel le si più",
        "pl": "i w na nie się z to jest że do jak po ale czy tak co o są dla od",
        "vi": "và của là không có được cho một các những trong người này với khi để đã như",
        "sw": "na ya wa ni kwa katika za hii la kuwa cha hiyo watu pia sana kama lakini moja",
        "fi": "ja on ei se että hän oli ovat mutta kun myös tai joka sen niin mitä ole",
        "nl": "de het een en van is dat niet te op zijn voor met die aan er ook als maar",
        "sv": "och att det som en är på för av inte med den till har ett om så men",
        "tr": "ve bir bu için ile da de çok ama gibi daha ne olarak değil olan var",
        "id": "dan yang di itu ini untuk dengan tidak dari dalam akan pada adalah ke juga",
    },
    "DEVANAGARI": {
        "hi": "है और के में की का को से यह हैं नहीं पर एक भी था",
        "mr": "आहे आणि च्या मध्ये ही हे हा नाही ते एक होते आहेत त्या",
        "ne": "छ र को मा हो यो छन् गर्न भएको पनि लाई एक थियो गर्छ",
    },
}


def language_of(text: str) -> str:
    """Return the code of the text's language, as "en"; "" where it cannot be told."""
    text = text[:MAX_TEXT_LENGTH].lower()
    script = _script(text)
    if script in SCRIPTS:
        return SCRIPTS[script]
    if script in LETTERS:
        counts = {code: sum(map(text.count, letters)) for code, letters in LETTERS[script]}
        return next((code for code, _ in LETTERS[script] if counts[code]), "")
    return _language_by_words(text, script) if script in WORDS else ""


def _script(text: str) -> str:
    """Return the script of most letters; Japanese has Chinese signs, too."""
    letters = [sign for sign in text if sign.isalpha()]
    names = Counter(_script_of(letter) for letter in letters)
    if len(letters) < MIN_LETTERS:
        return ""
    kana = names["HIRAGANA"] + names["KATAKANA"]
    if kana and 2 * (kana + names["CJK"]) > len(letters):
        return "HIRAGANA" if 10 * kana > len(letters) else "CJK"
    return names.most_common(1)[0][0]


@cache
def _script_of(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _language_by_words(text: str, script: str) -> str:
    word_counts = Counter(re.findall(r"[^\W\d_][\w\u0900-\u097f]*", text))
    counts = {
        code: sum(word_counts[word] for word in words.split())
        for code, words in WORDS[script].items()
    }
    (first, first_count), (_, second_count) = Counter(counts).most_common(2)
    is_clear = first_count >= MIN_WORDS and first_count > second_count
    return first if is_clear else ""
