"""Description of the algorithms' parts, for people and for programs."""

from collections.abc import Iterator

from pydantic import BaseModel

from apps.runs.algorithms.algorithm import Algorithm
from apps.runs.algorithms.snapshot import SOURCES
from apps.runs.algorithms.table import TABLE
from apps.runs.reading import Reading

COLUMNS = (
    "name",
    "samples",
    "advantage",
    "loss",
    "aggregation",
    "kl",
    "entropy",
    "experts",
    "paper",
)


def of(name: str) -> Algorithm:
    """Return the algorithm as its row has it. Raises ValidationError for a name that is none."""
    return Algorithm.model_validate({"name": name})


def cells(name: str) -> dict[str, str]:
    """Return one line of the table."""
    return {"name": name, **describe_parts(of(name)), "paper": source(name)}


def describe_parts(algorithm: Algorithm) -> dict[str, str]:
    """Return the parts of an algorithm in words, by name; "-" stands for none.

    A part's options stand beside its name if they are not its defaults.
    """
    return {
        "samples": _samples(algorithm),
        "advantage": _part(algorithm.advantage),
        "loss": _part(algorithm.loss),
        "aggregation": algorithm.aggregation,
        "kl": _kl(algorithm),
        "entropy": f"{algorithm.entropy.coefficient:g}" if algorithm.entropy.coefficient else "-",
        "experts": _experts(algorithm),
    }


def reading_parts(reading: Reading) -> dict[str, str]:
    """Return in words how steps read the buffer, if it is not first in, first out.

    Options stand beside their rule.
    """
    again = reading.replay
    return {
        "reads first": "-" if reading.order.name == "fifo" else _part(reading.order),
        "takes again": (
            "-"
            if again.name == "none"
            else f"{again.name}, ≤ {again.share:.0%} of groups, ≤ {again.max_uses} uses"
        ),
    }


def algorithm_document(name: str) -> dict[str, object]:
    """Return the table's row for programs: `name`, `title`, `paper`, `use` and `algorithm`.

    `algorithm` is the whole section that the row stands for.
    """
    row = TABLE[name]
    return {
        "name": name,
        "title": row.title,
        "paper": row.paper,
        "use": row.use,
        "algorithm": of(name).model_dump(mode="json"),
    }


def source(name: str) -> str:
    """Return the reference to the paper in the usual form; an arXiv number is named as one."""
    paper = TABLE[name].paper
    return f"arXiv {paper}" if paper[:4].isdigit() else paper


def list_algorithm_fields(
    section: BaseModel, prefix: str = ""
) -> Iterator[tuple[str, object, str]]:
    """Yield (dotted field, value, what it means) of a section and of those inside it."""
    for name, info in sorted(
        type(section).model_fields.items(), key=lambda item: item[0] != "name"
    ):
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from list_algorithm_fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, info.description or ""


def _samples(algorithm: Algorithm) -> str:
    """Return the sample strategy: what a step's rows are."""
    if algorithm.learns_from_lessons:
        return SOURCES[algorithm.name]
    if algorithm.advantage.name == "best":
        return "own, the best"
    return "own and experts'" if algorithm.expert.is_used else "own"


def _part(part: BaseModel) -> str:
    """Return the name, and the options that differ from the section's own defaults.

    What is switched off is not named.
    """
    kind = type(part)
    options = [
        f"{k}={_short(v)}"
        for k, v in part
        if k != "name" and v is not None and v != kind.model_fields[k].default
    ]
    name: str = dict(part)["name"]
    return f"{name}({', '.join(options)})" if options else name


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kl(algorithm: Algorithm) -> str:
    kl = algorithm.kl
    reference = algorithm.reference.kind
    if kl.estimator == "none":
        return "teacher" if algorithm.has_teacher else "-"
    return f"{kl.estimator} {kl.coefficient:g} in the {kl.where}" + (
        "" if reference == "base" else f" to {reference}"
    )


def _experts(algorithm: Algorithm) -> str:
    expert = algorithm.expert
    if not expert.is_used:
        return "-"
    weight = (
        f"mu {expert.schedule.peak:g} to {expert.schedule.valley:g}"
        if expert.schedule
        else f"mu {expert.mu:g}"
    )
    return f"{expert.loss.name}, {expert.ratio:.0%} of rows, {weight}"
