"""The knobs of a run: one frozen, typed schema, stored as JSON on the Run and written as YAML by people.

Unknown keys are errors with a suggestion; every number has bounds; sizes are derived, never typed twice.
"""

import difflib
import math
import re
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
LARGEST_FILE_BYTES = 256 * 1024


class ConfigError(ValueError):
    """The configuration is not usable; `problems` maps a dotted field to what is wrong with it and what is right."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{field}: {problem}" for field, problem in problems.items()))


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Sampling(Section):
    max_tokens: int = Field(64, ge=1, le=131_072, description="Longest answer, in tokens; the answer is cut there.")
    temperature: Positive = Field(1.0, le=5, description="Softmax temperature. Top-p and top-k stay off: they bias the ratio.")


class ScorerChoice(Section):
    scorer: str = Field(description="Name of a scorer.")
    weight: float = Field(1.0, allow_inf_nan=False, description="Its weight in the combined reward.")


class People(Section):
    per_group: int = Field(0, ge=0, description="How many rollouts of a group wait for a person; 0 asks nobody.")
    deadline_s: Positive = Field(60.0, description="How long a finished group waits for people, in seconds.")
    at_deadline: Literal["machine_only", "drop"] = Field(
        "machine_only", description="What becomes of a group nobody judged in time."
    )
    weight: Share = Field(
        1.0, description="Share of the person's reward where both have spoken; 1 lets the person replace the machine."
    )
    simulated: bool = Field(False, description="Let the labelled simulated rater fill in for people.")


class Advantage(Section):
    name: Literal["grpo"] = Field("grpo", description="Group-relative advantage.")
    scale: Literal["group", "none"] = Field("group", description="Divide by the group's standard deviation, or not (Dr. GRPO).")


class Algorithm(Section):
    name: Literal["grpo"] = Field("grpo", description="The algorithm's row in the table.")
    advantage: Advantage = Advantage()
    loss: Literal["dapo", "grpo", "bnpo", "dr_grpo"] = Field("dapo", description="How token losses are aggregated.")
    epsilon_low: Share = Field(0.2, description="Lower clip of the probability ratio.")
    epsilon_high: Positive = Field(0.28, description="Upper clip of the probability ratio.")
    beta: float = Field(0.0, ge=0, le=10, description="Weight of the KL to the base policy; 0 keeps no reference model.")


class Optimizer(Section):
    learning_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        1e-4, description="AdamW step size after warm-up."
    )
    warmup_steps: int = Field(5, ge=0, description="Linear warm-up; Adam's first steps are sign steps.")
    beta1: Share = 0.9
    beta2: Share = 0.98
    weight_decay: float = Field(0.0, ge=0, le=1)
    max_grad_norm: Positive = Field(0.5, description="Gradients are clipped to this norm.")
    micro_batch_rows: int | None = Field(None, ge=1, description="Rows per forward pass; empty takes the whole batch at once.")


class Checkpoints(Section):
    every: int = Field(10, ge=1, description="Steps between checkpoints; after a crash the steps since the last are replayed.")
    keep: int = Field(2, ge=2, description="How many are kept; two, so that a crash while writing one leaves one.")
    weights: int = Field(
        5,
        ge=2,
        description="How many of the newest published weight versions keep their folder; a live engine's newest is kept too.",
    )


class RunConfig(Section):
    policy: str = Field(description="Slug of the policy to train.")
    taskset: str = Field(description="Slug of the taskset to draw from.")
    steps: int = Field(ge=1, le=10_000_000, description="Planned optimiser updates; the run completes there.")
    group_size: int = Field(8, ge=2, le=1024, description="Rollouts drawn together for one task.")
    groups_per_step: int = Field(16, ge=1, le=65_536, description="Groups in one optimiser update.")
    max_staleness: int = Field(
        1, ge=0, le=1000, description="0 is synchronous, 1 one step off, n asynchronous: versions an experience may be old."
    )
    sync_interval: int = Field(1, ge=1, description="Updates between two published weight versions.")
    engine: Literal["auto", "vllm", "transformers"] = Field(
        "auto", description="What samples; auto takes vLLM on a GPU, else transformers."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seeds task order, sampling and training.")
    group_attempts: int = Field(3, ge=1, le=10, description="How often a group is tried before it is dropped with its reason.")
    sampling: Sampling = Sampling()
    rewards: tuple[ScorerChoice, ...] = Field((), description="Machine scorers and their weights.")
    people: People = People()
    algorithm: Algorithm = Algorithm()
    optimizer: Optimizer = Optimizer()
    checkpoints: Checkpoints = Checkpoints()

    @model_validator(mode="after")
    def _somebody_judges(self) -> "RunConfig":
        if not self.rewards and not self.people.per_group:
            raise ValueError("name at least one scorer under `rewards`, or ask people with `people.per_group`")
        if not self.rewards and self.people.at_deadline == "machine_only":
            raise ValueError("`people.at_deadline: machine_only` needs a scorer under `rewards`; use `drop`")
        if self.people.per_group > self.group_size:
            raise ValueError(f"people.per_group is {self.people.per_group}, more than group_size {self.group_size}")
        if not math.isfinite(self.sampling.temperature):
            raise ValueError("sampling.temperature must be a number")
        return self

    @property
    def rows_per_step(self) -> int:
        return self.group_size * self.groups_per_step


def parse(data: object) -> RunConfig:
    """The configuration in `data` (decoded JSON or YAML). Raises ConfigError naming each field and what is right."""
    if not isinstance(data, dict):
        raise ConfigError({"configuration": "must be a mapping of fields, such as `policy: tone`"})
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(dict(_explained(problem) for problem in error.errors())) from error


def from_yaml(text: str) -> RunConfig:
    """Parse YAML by the safe loader; aliases (expansion bombs) and duplicate keys are refused. Raises ConfigError."""
    if len(text.encode()) > LARGEST_FILE_BYTES:
        raise ConfigError({"configuration": f"is larger than {LARGEST_FILE_BYTES // 1024} KiB"})
    try:
        return parse(yaml.load(text, Loader=_StrictLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError({"configuration": f"is no valid YAML: {' '.join(str(error).split())}"}) from error


def to_yaml(config: RunConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


class _StrictLoader(yaml.SafeLoader):
    """YAML without aliases or repeated keys, and with `1e-4` read as the number it is."""

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError(f"aliases are not allowed ({self.peek_event().start_mark})")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = [key for key in keys if keys.count(key) > 1]
        if repeated:
            raise yaml.YAMLError(f"the key {repeated[0]!r} stands twice{node.start_mark}")
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _explained(problem: dict) -> tuple[str, str]:
    field = ".".join(str(part) for part in problem["loc"]) or "configuration"
    if problem["type"] == "extra_forbidden":
        return field, _suggestion(problem["loc"])
    return field, problem["msg"].removeprefix("Value error, ")


def _suggestion(location: tuple) -> str:
    """What an unknown key was probably meant to be, among the fields of its section."""
    section: type[BaseModel] = RunConfig
    for part in location[:-1]:
        annotation = section.model_fields[part].annotation if isinstance(part, str) else section
        section = next(
            (
                kind
                for kind in (annotation, *getattr(annotation, "__args__", ()))
                if isinstance(kind, type) and issubclass(kind, BaseModel)
            ),
            section,
        )
    close = difflib.get_close_matches(str(location[-1]), section.model_fields, n=1)
    return (
        f"is no known field; did you mean `{close[0]}`?"
        if close
        else f"is no known field; known: {', '.join(section.model_fields)}"
    )
