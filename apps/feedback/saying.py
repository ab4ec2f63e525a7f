"""What an answer says, in a few words: `4 of 5 stars`, `A better`, `2 > 1 = 3`."""

from collections.abc import Mapping, Sequence

from apps.feedback.models import Rating

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HOW_MUCH = {1: "a little better", 2: "better", 3: "much better"}
LONGEST = 80


def rating_in_words(rating: Rating) -> str:
    """What a rating says, its rollouts lettered in the order of their ids, whatever order the rater saw them in."""
    members = sorted(rating.members)
    return in_words(rating.form, in_order(rating.form, rating.answer, rating.members, members), members)


def in_order(form: str, answer: dict, of: Sequence[int], to: Sequence[int]) -> dict:
    """An answer about rollouts seen in the order `of`, as it reads in the order `to`. Only a preference depends on it."""
    if form == "pairwise" and "preference" in answer and list(of) != list(to):
        return {**answer, "preference": -answer["preference"]}
    return answer


def in_words(form: str, answer: Mapping, members: Sequence[int]) -> str:
    """The answer to an item of this form; rollouts are lettered in the order of `members`."""
    match form:
        case "stars":
            return f"{answer['stars']} of 5 stars"
        case "thumbs":
            return "good" if answer["up"] else "bad"
        case "pairwise":
            return _preference(answer)
        case "ranking":
            return _ranking(answer["ranks"], members)
        case "best_worst":
            return f"best {_letter(answer['best'], members)}, worst {_letter(answer['worst'], members)}"
        case "rubric":
            return ", ".join(f"{name} {value}" for name, value in answer["scales"].items())
        case "turns":
            return _turns(answer)
        case "spans":
            return f"{len(answer['spans'])} passages marked"
        case "rewrite":
            return f"“{answer['text'][:LONGEST]}”"
        case "flag":
            return f"broken: {answer['reason']}"[:LONGEST]
    return "in words"


def _preference(answer: Mapping) -> str:
    if answer.get("both_bad"):
        return "both are bad"
    grade = answer["preference"]
    return f"{'A' if grade < 0 else 'B'} {HOW_MUCH[abs(grade)]}" if grade else "equally good"


def _ranking(ranks: Mapping[str, int], members: Sequence[int]) -> str:
    by_rank: dict[int, list[str]] = {}
    for pk, rank in ranks.items():
        by_rank.setdefault(rank, []).append(_letter(int(pk), members))
    return " > ".join(" = ".join(sorted(by_rank[rank])) for rank in sorted(by_rank))


def _turns(answer: Mapping) -> str:
    if "first_error" in answer:
        return "no turn is wrong" if answer["first_error"] is None else f"first error in turn {answer['first_error'] + 1}"
    marks = list(answer["marks"].values())
    return f"{marks.count(1)} good, {marks.count(0)} neutral, {marks.count(-1)} bad turns"


def _letter(pk: int, members: Sequence[int]) -> str:
    return LETTERS[list(members).index(pk) % len(LETTERS)] if pk in members else "?"
