"""Bring ways to name someone to the bare name: Einstein, Albert; the physicist Marie Curie."""

import re

MAX_ANSWER_LENGTH = 300  # characters of an answer that names someone
_PARTICLES = "van|von|der|den|de|da|di|du|del|la|le|al|bin|ibn|of|the"
# Names of several words, each with a capital letter but for particles.
_NAME = re.compile(rf"[^\W\d_a-z][\w.'’-]*(?: (?:(?:{_PARTICLES})|[^\W\d_a-z][\w.'’-]*)){{1,5}}")
_INVERTED = re.compile(r"([^,;.]{1,60}),\s([^,;]{1,60}?)[.!]?")
_TITLES = re.compile(
    r"^(?:dr|prof|professor|sir|dame|mr|mrs|ms|miss|mme|madame|monsieur|herr|frau|lord|lady"
    r"|saint|st|señor|señora|don)\b\.?\s",
    re.I,
)
_ROLES = (
    "physicist|chemist|mathematician|scientist|biologist|astronomer|philosopher|composer|musician"
    "|singer|songwriter|pianist|rapper|painter|artist|sculptor|architect|playwright|poet|writer"
    "|author|novelist|dramatist|actor|actress|director|filmmaker|comedian|president|king|queen"
    "|emperor|empress|prince|princess|pope|general|admiral|captain|explorer|inventor|engineer"
    "|politician|statesman|footballer|player|athlete|boxer|swimmer|runner|astronaut|cosmonaut"
    "|economist|historian|psychologist|physician|naturalist|navigator|band|group|company|city"
    "|country|state|film|movie|novel|book|play|song|album|river|lake|mountain|planet|element|gas"
    "|metal|organelle|language|island|ocean|continent"
)
_ADJECTIVES = (
    "famous|great|renowned|celebrated|legendary|late|young|noted|brilliant|theoretical|well-known"
    "|[A-Z][a-z]{1,12}(?:an|ish|ese|ch|ic|sh|ek|man|born)"
)
# "The German physicist" in front of a name; ", a German physicist," behind one.
_ROLE_BEFORE = re.compile(
    r"^(?:(?:[Ii]t\s(?:was|is)|[Tt]hat\s(?:was|is|would\sbe))\s)?(?:[Tt]he|[Aa]n?)\s"
    rf"(?:(?:{_ADJECTIVES})(?:-[a-z]+|-[A-Z][a-z]+)?\s){{0,3}}(?:{_ROLES})\s(?=[A-Z])",
)
_ROLE_BEHIND = re.compile(
    rf"^,\s(?:the|an?)\s(?:(?:{_ADJECTIVES})(?:-[a-zA-Z]+)?\s){{0,3}}(?:{_ROLES})"
    r"(?:\s(?:of|from)\s[^,;.]{1,40})?(?=[,.!]|$),?",
    re.I,
)
# "Former President", "Astronaut" right before a name of several words.
_ROLE_ALONE = re.compile(
    r"^(?:(?:[Ff]ormer|[Tt]hen|[Ee]x)[\s-])?(?:(?:[Uu]\.?[Ss]\.?"
    r"|[A-Z][a-z]{1,12}(?:an|ish|ese|ch))\s)?"
    rf"(?i:{_ROLES.partition('|band|')[0]})\s(?=[A-Z])"
)
_DID = re.compile(r"\s(?:did|does|has|had|was|is|would)(?:\s(?:it|so|that|this))?\s?[.!]?$", re.I)


def with_bare_name(text: str, reference: str) -> str:
    """Reduce the text to the name if it inverts the name, or adds who the person is."""
    name = reference.strip()
    if len(text) > MAX_ANSWER_LENGTH:
        return text
    text = _TITLES.sub("", text)
    inverted = _INVERTED.fullmatch(text.strip(" *\"'")) if _NAME.fullmatch(name) else None
    if inverted and f"{inverted[2]} {inverted[1]}".casefold() == name.casefold():
        return name
    before = _ROLE_BEFORE.match(text)
    if before and text[before.end() :].casefold().startswith(name.casefold()):
        text = text[before.end() :]
    alone = _ROLE_ALONE.match(text) if " " in name else None
    if alone and text[alone.end() :].casefold().startswith(name.casefold()):
        text = text[alone.end() :]
    if not text.casefold().startswith(name.casefold()):
        return text
    written = text[: len(name)]  # in the reply's own letters: "us" is not the U.S.
    behind = text[len(name) :]
    if _DID.fullmatch(behind):
        return written
    return written + _ROLE_BEHIND.sub("", behind)
