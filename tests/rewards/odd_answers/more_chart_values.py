"""Values of charts in the words of people: what sentences say, deny or leave open."""

from tests.rewards.odd_answers.grouping import rows

ROWS = [
    *rows({"value": 0.45}, "Share?", right=[".45", "0,45", "0.45"], wrong=["45", "4.5%", "0.54"]),
    *rows(
        {"value": 12.5},
        "?",
        right=["12,5", "12 1/2", "12.5"],
        wrong=["125", "1.25", "12.5 million"],
    ),
    *rows(
        {"value": 23.5}, "What percentage?", right=["23,5 %", "23.5"], wrong=["32.5", "2.35", "20"]
    ),
    *rows({"value": 3000}, "Sales?", right=["3 000", "3000"], wrong=["300", "30000", "3"]),
    *rows({"value": 0.8}, "Ratio?", right=["0,8", ".8", "0.8"], wrong=["8", "0.08", "1.8"]),
]
