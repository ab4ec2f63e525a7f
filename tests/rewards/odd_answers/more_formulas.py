"""Chemistry in the words of people: what sentences say, deny or leave open."""

from tests.rewards.odd_answers.grouping import rows

ROWS = [
    *rows(
        {"value": "H2SO4"},
        "Formula of sulfuric acid?",
        right=["化学式是H2SO4", "H2SO4"],
        wrong=["H2SO3", "HSO4-", "H2S"],
    ),
    *rows({"value": "CO2"}, "gas?", right=["CO2"], wrong=["no CO2", "CO", "C2O", "Co2"]),
    *rows(
        {"value": "BaSO4"},
        "Which precipitate?",
        right=["BaSO4"],
        wrong=["BaSO4 does not precipitate", "no BaSO4", "BaCl2", "BaSO3", "Ba"],
    ),
    *rows(
        {"value": "Na2CO3"},
        "Washing soda?",
        right=["化学式为 Na2CO3。", "Na2CO3"],
        wrong=["no Na2CO3", "Na2CO3 does not form", "Na2CO3?", "NaHCO3", "NaCO3", "Na2CO3·10H2O"],
    ),
]
