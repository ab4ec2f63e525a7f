"""The knobs of a run: one frozen, typed schema, stored as JSON on the Run and written as YAML by people.

Unknown keys are errors with a suggestion; every number has bounds; sizes are derived, never typed twice.
"""

import difflib
import itertools
import math
import re
from collections.abc import Hashable, Iterator
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, Field, JsonValue, ValidationError, model_validator

from apps.runs.alerts import Alerts
from apps.runs.algorithms.algorithm import Algorithm
from apps.runs.algorithms.refusals import refusals
from apps.runs.algorithms.section import Positive, Section, Share
from apps.runs.algorithms.snapshot import Snapshot
from apps.runs.budget import Budget
from apps.runs.evaluation import MOST_SCHEDULES, Evaluation, Scheduled
from apps.runs.hacking import Hacking
from apps.runs.people import People
from apps.runs.pipeline import MAKE_EXPERTS, MOST_OPERATORS, OperatorChoice
from apps.runs.precision import Precision
from apps.runs.reading import Reading
from apps.runs.replay import Replay
from apps.runs.retention import Retention
from apps.runs.scorer_choice import ScorerChoice
from apps.runs.selection import Selection, Shuffle
from apps.runs.serving import Serve
from apps.tasksets.judged_by import Kind

LARGEST_FILE_BYTES = 256 * 1024
MOST_VALUES = 5_000  # keys and values of a configuration, with all that they hold
MOST_PROBLEMS = 50  # that an error names
LONGEST_QUOTE = 100  # characters of a key or value that an error repeats


class ConfigError(ValueError):
    """The configuration is not usable; `problems` maps a dotted field to what is wrong with it and what is right."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = dict(itertools.islice(problems.items(), MOST_PROBLEMS))
        if len(problems) > MOST_PROBLEMS:
            words = f"has {len(problems):,} problems; these are the first {MOST_PROBLEMS}"
            self.problems["configuration"] = words
        told = (f"{field}: {problem}" for field, problem in self.problems.items())
        super().__init__("; ".join(told))


class Repeats(Section):
    """When an answer is in a loop, and is stopped: its newest tokens are the same few again and again."""

    period: int = Field(64, ge=1, le=1024, description="Longest stretch of tokens whose repetition is a loop.")
    times: int = Field(8, ge=2, le=1000, description="How often it must be said in a row.")
    tokens: int = Field(64, ge=2, le=131_072, description="Tokens that the loop must have in all: short ones are said more often.")


class Sampling(Section):
    max_tokens: int = Field(64, ge=1, le=131_072, description="Longest answer, in tokens; the answer is cut there.")
    temperature: Positive = Field(1.0, le=5, description="Softmax temperature. Top-p and top-k stay off: they bias the ratio.")
    repeats: Repeats | None = Field(None, description="When an answer in a loop is stopped early; empty lets it go on to the end.")
    slice_tokens: int | None = Field(
        None, ge=8, le=131_072, description="Tokens of an answer in one go; a longer one is set aside in the database then, and "
        "gone on with first, by any explorer. Empty says it to its end.",
    )  # fmt: skip
    time_s: float | None = Field(
        None, gt=0, le=86_400, allow_inf_nan=False, description="Seconds that an answer may be under way at the engine, all slices "
        "together; it is ended then and keeps what it said. Empty sets no limit.",
    )  # fmt: skip
    older_segments: Literal["learn", "leave_out"] = Field(
        "learn", description="Whether updates learn from what older weights said of an answer whose end newer ones said."
    )


class EnvironmentChoice(Section):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$", description="An environment of the project, or of the library.")
    turns: int | None = Field(None, ge=1, le=1000, description="Most actions in an episode; empty takes the environment's limit.")
    weight: float = Field(1.0, allow_inf_nan=False, description="Of what an episode earned, in the combined reward.")
    reward_s: float | None = Field(
        None, ge=0, le=2_592_000, description="Seconds after an episode's end within which its rewards may still come; empty takes "
        "the environment's.",
    )  # fmt: skip
    options: dict[str, JsonValue] = Field({}, description="Handed to the environment at each reset, with those of the task.")


class Optimizer(Section):
    learning_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        1e-4, description="AdamW step size after warm-up."
    )
    warmup_steps: int = Field(5, ge=0, description="Linear warm-up; Adam's first steps are sign steps.")
    beta1: Share = Field(0.9, description="What AdamW keeps of its mean gradient at each update; higher is smoother and slower.")
    beta2: Share = Field(
        0.98, description="What AdamW keeps of its mean squared gradient, by whose root each step is divided: 0.98 looks back some "
        "50 updates.",
    )  # fmt: skip
    weight_decay: float = Field(
        0.0, ge=0, le=1, description="Share of each weight, times the learning rate, that an update takes off; 0 takes off none."
    )
    max_grad_norm: Positive = Field(0.5, description="Gradients are clipped to this norm.")
    micro_batch_rows: int | None = Field(None, ge=1, description="Rows per forward pass; empty takes the whole batch at once.")


class LengthPenalty(Section):
    weight: Positive = Field(0.5, le=100, description="Of the length reward (−0.5 to 0.5 within a group) beside the other rewards.")
    from_step: int = Field(0, ge=0, description="Groups drawn for earlier updates are not touched: first learn to be right.")


class Lora(Section):
    rank: int = Field(16, ge=1, le=1024, description="Inner width of the low-rank adapters.")
    alpha: Positive = Field(32.0, le=65_536, description="An adapter's output is multiplied by alpha / rank.")
    target_modules: tuple[str, ...] = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Ends of the names of the layers that get one.",
    )


class Checkpoints(Section):
    every: int = Field(10, ge=1, description="Steps between checkpoints; after a crash the steps since the last are replayed.")
    keep: int = Field(2, ge=2, description="How many are kept; two, so that a crash while writing one leaves one.")
    weights: int = Field(
        5,
        ge=2,
        description="How many of the newest published weight versions keep their folder; a live engine's newest is kept too.",
    )
    milestones: int | None = Field(
        None, ge=1, description="One in so many versions keeps its folder for good, to be evaluated, compared or talked to later; "
        "empty keeps none beside the newest."
    )  # fmt: skip


class RunConfig(Section):
    policy: str = Field(description="Slug of the policy to train.")
    taskset: str | None = Field(
        None, description="Slug of the taskset to draw from; with `serve`, of the one that keeps what callers ask."
    )
    tasksets: dict[str, Annotated[int, Field(ge=1, le=100)]] = Field(
        {}, max_length=20, description="Instead of one: several by their slugs, each with its share of the draws beside the others."
    )
    steps: int = Field(
        ge=0, le=10_000_000, description="Planned optimiser updates; the run completes there. An evaluation makes none: 0."
    )
    group_size: int = Field(8, ge=1, le=1024, description="Rollouts drawn together for one task.")
    groups_per_step: int = Field(16, ge=1, le=65_536, description="Groups in one optimiser update.")
    max_staleness: int = Field(
        1, ge=0, le=1000, description="0 is synchronous, 1 one step off, n asynchronous: versions an experience may be old."
    )
    over_rollout: int | None = Field(
        None, ge=0, le=65_536, description="Groups begun beyond those that the next weights need: updates take what is complete "
        "first, the rest goes on and serves a later one. Empty begins as many as max_staleness allows.",
    )  # fmt: skip
    sync_interval: int = Field(1, ge=1, description="Updates between two published weight versions.")
    engine: Literal["auto", "vllm", "transformers"] = Field(
        "auto", description="What samples; auto takes vLLM on a GPU, else transformers."
    )
    precision: Precision = Field(
        Precision(), description="In how many bits the engine and the trainer compute."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seeds task order, sampling and training.")
    group_attempts: int = Field(
        3, ge=1, le=10, description="How often work on a group may fail, without its getting on in between, before it is dropped."
    )
    task_attempts: int = Field(
        3, ge=1, le=100, description="How many groups of a task may be dropped for failures before the run draws it no more."
    )
    selection: Selection = Field(Shuffle(), description="By which rule draws choose tasks.")
    sampling: Sampling = Sampling()
    rewards: tuple[ScorerChoice, ...] = Field(
        (), max_length=100, description="Machine scorers and their weights."
    )
    environment: EnvironmentChoice | None = Field(None, description="What the policy acts in; empty answers each task by itself.")
    serve: Serve | None = Field(None, description="Callers come with their own prompts and are trained on; empty draws its tasks.")
    people: People = People()
    length_penalty: LengthPenalty | None = Field(None, description="Short answers gain, long ones lose (long to short).")
    pipeline: tuple[OperatorChoice, ...] = Field(
        (), max_length=MOST_OPERATORS, description="Operators between judging and training, in order; empty lets all through."
    )
    reading: Reading = Field(Reading(), description="Which of the groups that came through it an update takes, and which again.")
    algorithm: Algorithm = Field(Algorithm(), description="What is learned from a batch: a row of the table, with changes.")
    snapshot: Snapshot | None = Field(None, description="Which lessons a run learns from that samples nothing (sft, dpo, kto, …).")
    replay: Replay | None = Field(None, description="Another run's recorded data to learn from again; empty samples its own.")
    evaluations: tuple[Scheduled, ...] = Field(
        (), max_length=MOST_SCHEDULES, description="Which of its versions are evaluated by themselves, on what; empty: none."
    )
    evaluation: Evaluation | None = Field(
        None, description="Whose weights are asked each task of the set once, and nothing is learned; empty trains."
    )
    lora: Lora | None = Field(None, description="Train low-rank adapters only; empty trains all weights.")
    tower: Literal["frozen", "trained"] = Field(
        "frozen", description="Whether the part of a policy that looks at pictures is trained with the rest."
    )
    hacking: Hacking = Field(Hacking(), description="When the run is suspected of pleasing its scorers instead of being good.")
    alerts: Alerts = Field(Alerts(), description="When somebody should look at the run.")
    budget: Budget | None = Field(None, description="What it may use at most; beyond it the run pauses. Empty sets no limit.")
    optimizer: Optimizer = Optimizer()
    checkpoints: Checkpoints = Checkpoints()
    retention: Retention | None = Field(
        None, description="When the arrays of its rollouts may go; empty keeps them, or does as the installation when it has ended."
    )

    @model_validator(mode="after")
    def _somebody_judges(self) -> "RunConfig":
        if self.algorithm.learns_from_lessons:
            return self
        if not self.judges and not self.people.per_group:
            raise ValueError("name at least one scorer under `rewards`, an `environment`, or ask people with `people.per_group`")
        if not self.judges and self.people.at_deadline == "machine_only":
            raise ValueError(
                "`people.at_deadline: machine_only` needs a scorer under `rewards`; use `drop` or `fill_with_rater_model`"
            )
        if self.people.per_group > self.group_size:
            raise ValueError(f"people.per_group is {self.people.per_group}, more than group_size {self.group_size}")
        if not math.isfinite(self.sampling.temperature):
            raise ValueError("sampling.temperature must be a number")
        return self

    @property
    def taskset_names(self) -> tuple[str, ...]:
        """Slugs of what it draws from, in their order."""
        return tuple(sorted(self.tasksets)) if self.tasksets else (self.taskset,)

    def judges_of(self, kind: Kind) -> tuple[ScorerChoice, ...]:
        """The machines whose words make the reward of a rollout at a task of this kind."""
        return self._with_environment(self.scorers_of(kind))

    def scorers_of(self, kind: Kind) -> tuple[ScorerChoice, ...]:
        """Those that the task names, whatever their domains; where it names none, those of its domain."""
        if kind.judged_by:
            return tuple(choice for choice in self.rewards if choice.scorer in kind.judged_by)
        return tuple(choice for choice in self.rewards if not choice.domains or kind.domain in choice.domains)

    @property
    def judges(self) -> tuple[ScorerChoice, ...]:
        """The machines whose words make rollouts' rewards: scorers, and the environment by its name."""
        return self._with_environment(self.rewards)

    def _with_environment(self, chosen: tuple[ScorerChoice, ...]) -> tuple[ScorerChoice, ...]:
        if self.environment is None:
            return chosen
        return (*chosen, ScorerChoice(scorer=self.environment.name, weight=self.environment.weight))

    @property
    def samples(self) -> bool:
        """Whether an explorer samples for it: not where it learns from lessons, or from what another run has sampled."""
        return not self.algorithm.learns_from_lessons and self.replay is None

    @property
    def takes_turns(self) -> bool:
        """Whether its engine waits while its trainer computes, and its trainer for its engine."""
        return self.samples and self.max_staleness == 0

    @property
    def usual_rows_per_step(self) -> int:
        """Rows of an update that the run sampled itself, or lessons of its snapshot."""
        if self.snapshot:
            return self.snapshot.rows
        kept = getattr(self.algorithm.advantage, "keep", self.group_size)  # RAFT imitates the best alone
        return min(kept, self.group_size) * self.groups_per_step

    @property
    def groups_again_per_step(self) -> int:
        """Most groups of an update that may be taken again by experience replay."""
        return self.reading.replay.most(self.groups_per_step)

    @property
    def expert_rows_per_step(self) -> int:
        """Rows that experts wrote: as many as make `expert.ratio` of the whole, rounded up."""
        ratio = self.algorithm.expert.ratio
        return math.ceil(round(self.usual_rows_per_step * ratio / (1 - ratio), 9))

    @property
    def makes_experts(self) -> bool:
        """Whether its pipeline makes expert rows of its own answers: they come while it learns."""
        return any(choice.operator in MAKE_EXPERTS for choice in self.pipeline)

    @property
    def rows_per_step(self) -> int:
        return self.usual_rows_per_step + self.expert_rows_per_step


def parse(data: object) -> RunConfig:
    """The configuration in `data` (decoded JSON or YAML). Raises ConfigError naming each field and what is right."""
    if not isinstance(data, dict):
        raise ConfigError({"configuration": "must be a mapping of fields, such as `policy: tone`"})
    _require_bounded(data)
    if problems := dict.fromkeys(_with_nul(data), "holds a NUL character, which cannot be stored"):
        raise ConfigError(problems)
    try:
        plan = RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(dict(_explained(problem) for problem in error.errors())) from error
    if problems := refusals(plan):
        raise ConfigError(problems)
    return plan


def _require_bounded(data: dict) -> None:
    """Refuse what would take long to check. Raises ConfigError."""
    values = 0
    size = 0
    waiting: list[object] = [data]
    while waiting:
        value = waiting.pop()
        values += 1
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        if values + len(waiting) > MOST_VALUES:
            raise ConfigError({"configuration": f"has more than {MOST_VALUES:,} keys and values"})
        if size > LARGEST_FILE_BYTES:
            words = f"its texts are larger than {LARGEST_FILE_BYTES // 1024} KiB"
            raise ConfigError({"configuration": words})


def _with_nul(said: object, path: str = "") -> Iterator[str]:
    """The dotted fields in which a NUL stands, as a value or in the name of a key. YAML and JSON can both spell one."""
    if isinstance(said, str) and "\0" in said:
        yield path
    elif isinstance(said, dict):
        for name, value in said.items():
            inner = f"{path}.{name}".removeprefix(".").replace("\0", "")
            yield from [inner] if "\0" in str(name) else _with_nul(value, inner)
    elif isinstance(said, list | tuple):
        for number, value in enumerate(said):
            yield from _with_nul(value, f"{path}.{number}")


def from_yaml(text: str) -> RunConfig:
    """The configuration in a YAML text. Raises ConfigError."""
    return parse(loaded(text))


def loaded(text: str) -> object:
    """What a YAML text says, by the safe loader; aliases (expansion bombs) and duplicate keys are refused. Raises ConfigError."""
    if len(text.encode()) > LARGEST_FILE_BYTES:
        raise ConfigError({"configuration": f"is larger than {LARGEST_FILE_BYTES // 1024} KiB"})
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a date that there is not
        raise ConfigError({"configuration": f"is no valid YAML: {' '.join(str(error).split())}"}) from error


def to_yaml(config: RunConfig) -> str:
    return as_yaml(config.model_dump(mode="json"))


def as_yaml(said: object) -> str:
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True)


class _StrictLoader(yaml.SafeLoader):
    """YAML without aliases or repeated keys, and with `1e-4` read as the number it is."""

    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        self.nodes += 1
        if self.nodes > MOST_VALUES:  # a small file of many nodes takes the parser seconds
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} keys and values")
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError(f"aliases are not allowed ({self.peek_event().start_mark})")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        met = set()
        for key in keys:
            if not isinstance(key, Hashable):
                continue  # PyYAML refuses it
            if key in met:
                quoted = repr(key)[:LONGEST_QUOTE]
                raise yaml.YAMLError(f"the key {quoted} stands twice{node.start_mark}")
            met.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _explained(problem: dict) -> tuple[str, str]:
    path, section = _walked(problem["loc"])
    if problem["type"] == "extra_forbidden":
        return path, _suggestion(str(problem["loc"][-1]), section)
    if problem["type"] == "union_tag_invalid":
        return f"{path}.name", f"is {problem['ctx']['tag']!r}; take one of {problem['ctx']['expected_tags'].replace(chr(39), '')}"
    return path or "configuration", problem["msg"].removeprefix("Value error, ")


def _walked(location: tuple) -> tuple[str, type[BaseModel]]:
    """The dotted field that a location means, and its section. The name of a loss or an advantage is a step, but no field."""
    section: type[BaseModel] = RunConfig
    path, choice = [], {}
    for part in location:
        if part in choice:
            section, choice = choice[part], {}
            continue
        path.append(str(part)[:LONGEST_QUOTE])
        kinds = _sections_of(section.model_fields[part].annotation) if part in section.model_fields else []
        choice = {kind.model_fields["name"].default: kind for kind in kinds} if len(kinds) > 1 else {}
        section = kinds[0] if len(kinds) == 1 else section
    return ".".join(path), section


def _sections_of(annotation: object) -> list[type[BaseModel]]:
    """The sections that a field's value may be, however deep they stand in unions and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections_of(inner)]


def _suggestion(name: str, section: type[BaseModel]) -> str:
    """What an unknown key was probably meant to be, among the fields of its section."""
    close = difflib.get_close_matches(name[:LONGEST_QUOTE], section.model_fields, n=1)
    return (
        f"is no known field; did you mean `{close[0]}`?"
        if close
        else f"is no known field; known: {', '.join(section.model_fields)}"
    )
