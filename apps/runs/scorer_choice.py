"""Choice of machine scorers: their weights, and how far they are trusted."""

from pydantic import Field, JsonValue, model_validator

from apps.runs.algorithms.section import Section, Share


class Trust(Section):
    """Agreement with people's labels that a scorer must reach; below it the run has an alert."""

    accuracy: Share | None = Field(
        None, description="Minimum accuracy against people's labels, good or bad."
    )
    kappa: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="Minimum agreement beyond chance (Cohen's kappa) on good and bad.",
    )
    order: Share | None = Field(
        None, description="Minimum share of pairs in a group that the scorer orders as people do."
    )
    min_labels: int = Field(
        20, ge=10, le=5000, description="Minimum number of labels before the scorer is measured."
    )
    pause: bool = Field(
        False,
        description=(
            "Pause the run, once for each alert, if the scorer is below the minimum by more than "
            "chance."
        ),
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> "Trust":
        if self.accuracy is None and self.kappa is None and self.order is None:
            raise ValueError("name at least one minimum: `accuracy`, `kappa` or `order`")
        return self


class ScorerChoice(Section):
    scorer: str = Field(max_length=60, description="Name of a scorer.")
    weight: float = Field(
        1.0, allow_inf_nan=False, description="Its weight in the combined reward."
    )
    options: dict[str, JsonValue] = Field(
        {}, description="Options of the scorer; `manage.py scorers NAME` lists them."
    )
    domains: tuple[str, ...] = Field(
        (),
        description=(
            "Score only tasks of these domains and tasks that name the scorer. If empty, all tasks."
        ),
    )
    trust: Trust | None = Field(
        None, description="Minimum agreement with people's labels. If empty, none is required."
    )
