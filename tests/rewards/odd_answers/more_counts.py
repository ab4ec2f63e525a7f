"""Counts in the words of people: what sentences say, deny or leave open."""

from tests.rewards.odd_answers.grouping import rows

ROWS = [
    *rows(
        {"count": 3},
        "How many cats?",
        right=["Es sind drei Katzen.", "Il y a trois chats.", "Hay tres gatos.", "Три кошки", "3"],
        wrong=["3?", "4", "two", "three or four"],
    ),
    *rows(
        {"count": 0},
        "How many dogs?",
        right=["No dogs", "keine", "0"],
        wrong=["1", "no idea", "one"],
    ),
    *rows({"count": 1}, "How many suns?", right=["1"], wrong=["no one", "2", "one or two", "none"]),
    *rows(
        {"count": 25},
        "How many?",
        right=["fünfundzwanzig", "vingt-cinq", "veinticinco", "25"],
        wrong=["52", "20", "twenty"],
    ),
    *rows(
        {"count": 4},
        "How many birds are there?",
        right=[
            "Vier Vögel.",
            "Es sind vier Vögel.",
            "Quatre oiseaux",
            "Il y a quatre oiseaux.",
            "Hay cuatro pájaros.",
            "Четыре птицы.",
            "4",
        ],
        wrong=["not four", "4?", "5", "three", "4 or 5"],
    ),
    *rows(
        {"count": 15},
        "How many?",
        right=["fünfzehn", "quinze", "quince", "15"],
        wrong=["50", "fifty", "5"],
    ),
    *rows(
        {"count": 32},
        "How many?",
        right=["zweiunddreißig", "trente-deux", "treinta y dos", "32"],
        wrong=["23", "thirty", "2"],
    ),
    *rows(
        {"count": 71},
        "How many?",
        right=["einundsiebzig", "soixante et onze", "setenta y uno", "71"],
        wrong=["17", "70", "60"],
    ),
    *rows(
        {"count": 100},
        "How many?",
        right=["100"],
        wrong=["hundreds", "10", "1000", "a hundred or more"],
    ),
]
