"""Answers that refuse to answer."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"


class Options(OperatorOptions):
    phrases: tuple[str, ...] = Field(
        (
            "i cannot help", "i can't help", "i cannot assist", "i can't assist", "i am unable to", "i'm unable to",
            "i'm sorry, but i can", "i am sorry, but i can", "as an ai", "i cannot provide", "i can't provide",
        ),
        min_length=1,
        description="What a refusal says, in lower case.",
    )  # fmt: skip
    within: int = Field(200, ge=1, description="Characters of the beginning in which it says so.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample, options))


def _why_not(sample: Sample, options: Options) -> str:
    beginning = sample.text[: options.within].lower().replace("\u2019", "'")
    said = next((phrase for phrase in options.phrases if phrase in beginning), "")
    return f"it refuses: {said[:60]!r}" if said else ""
