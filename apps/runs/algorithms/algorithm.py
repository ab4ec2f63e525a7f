"""The section `algorithm`: a row of the table, with whatever is given explicitly in its place."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from apps.runs.algorithms.advantages import Advantage
from apps.runs.algorithms.kl import KL, Entropy
from apps.runs.algorithms.losses import PreferenceLoss, SampleLoss, SupervisedLoss
from apps.runs.algorithms.parts import Aggregation, Expert, Reference, expand_short_form
from apps.runs.algorithms.section import Section
from apps.runs.algorithms.snapshot import SOURCES
from apps.runs.algorithms.table import TABLE, algorithm_defaults

FIRST = "grpo"
# Parts of which one field decides what the others mean; `loss: gspo` stands for `loss: {name:
# gspo}`.
KINDS = {"advantage": "name", "loss": "name", "kl": "estimator", "reference": "kind"}


class BradleyTerry(Section):
    name: Literal["bradley_terry"] = Field(
        "bradley_terry", description="The better of two answers has the higher score."
    )


Loss = Annotated[
    SampleLoss | SupervisedLoss | PreferenceLoss | BradleyTerry, Field(discriminator="name")
]


class Algorithm(Section):
    name: str = Field(
        FIRST, description="Name of the algorithm; it sets the defaults of everything below."
    )
    advantage: Advantage = Field(description="How a rollout is compared with its group.")
    loss: Loss = Field(description="Loss per token.")
    aggregation: Aggregation = Field(
        description="How the losses of the tokens in a step are combined."
    )
    kl: KL = Field(KL(), description="What keeps the policy near a reference model.")
    entropy: Entropy = Field(
        Entropy(), description="Entropy bonus, which keeps the policy exploring."
    )
    reference: Reference = Field(Reference(), description="Which model is the reference.")
    expert: Expert = Field(Expert(), description="Expert rows to mix into each step (MIX, CHORD).")
    reset_optimizer: bool = Field(
        False,
        description="Reset the optimizer's moments at each published weight version (Kimi k1.5).",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, section: object) -> object:
        """Return the row's parts, under what is given.

        `algorithm: gspo` stands for `algorithm: {name: gspo}`.
        """
        section = expand_short_form(section)
        if not isinstance(section, Mapping):
            return section
        name = section.get("name", FIRST)
        return merged(
            {
                **algorithm_defaults(name if isinstance(name, str) and name in TABLE else FIRST),
                "name": name,
            },
            section,
        )

    @field_validator("name")
    @classmethod
    def _is_in_the_table(cls, name: str) -> str:
        if name not in TABLE:
            raise ValueError(unknown_algorithm(name))
        return name

    @property
    def learns_from_lessons(self) -> bool:
        """Tell whether it trains from a snapshot of lessons and samples nothing."""
        return self.name in SOURCES

    @property
    def needs_reference(self) -> bool:
        return self.kl.needs_reference or self.has_teacher or self.loss.name in ("dpo", "kto")

    @property
    def has_teacher(self) -> bool:
        return self.advantage.name in ("towards_teacher", "jensen_shannon")


def merged(row: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return the row with the given parts over it.

    A part of which another kind is given (another loss, no KL) starts from its own defaults, not
    from the row's options.
    """
    result = dict(row)
    for part, value in changes.items():
        kind = KINDS.get(part)
        if kind and isinstance(value, str):
            value = {kind: value}
        current = result.get(part)
        if isinstance(current, Mapping) and isinstance(value, Mapping):
            is_another = kind is not None and value.get(kind, current.get(kind)) != current.get(
                kind
            )
            value = dict(value) if is_another else {**current, **value}
        result[part] = value
    return result


def unknown_algorithm(name: object) -> str:
    close = difflib.get_close_matches(str(name), TABLE, n=1)
    return f"there is no algorithm {name!r}; " + (
        f"did you mean `{close[0]}`?" if close else f"known: {', '.join(TABLE)}"
    )
