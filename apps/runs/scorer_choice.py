"""Which machine scorers judge, with which weight, and how far they are believed."""

from pydantic import Field, JsonValue, model_validator

from apps.runs.algorithms.section import Section, Share


class Trust(Section):
    """What a scorer must reach against people's labels; under it the run has an alert until it is above again."""

    accuracy: Share | None = Field(None, description="Least share of people's labels, good or bad, that it must share.")
    kappa: float | None = Field(None, ge=-1, le=1, description="Least agreement beyond chance (Cohen's kappa) on good and bad.")
    order: Share | None = Field(None, description="Least share of pairs of a group that it must order as people do.")
    least: int = Field(20, ge=10, le=5000, description="Labels below which nothing is said of it.")
    pause: bool = Field(False, description="Pause the run, once for each alert, where it is under by more than chance.")

    @model_validator(mode="after")
    def _asks_for_something(self) -> "Trust":
        if self.accuracy is None and self.kappa is None and self.order is None:
            raise ValueError("say what it must reach: `accuracy`, `kappa` or `order`")
        return self


class ScorerChoice(Section):
    scorer: str = Field(max_length=60, description="Name of a scorer.")
    weight: float = Field(1.0, allow_inf_nan=False, description="Its weight in the combined reward.")
    options: dict[str, JsonValue] = Field({}, description="The scorer's own, as `manage.py scorers NAME` lists them.")
    domains: tuple[str, ...] = Field(
        (), description="Judges tasks of these domains alone, and those that name it themselves; empty judges all."
    )
    trust: Trust | None = Field(None, description="What it must reach against people's labels; empty asks for nothing.")
