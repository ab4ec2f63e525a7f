"""Configuration of a run: one frozen, typed schema, stored as JSON and written as YAML.

Unknown keys are errors with a suggestion; every number has bounds; sizes are derived, never typed
twice.
"""

import itertools
import math
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from apps.runs.alerts import Alerts
from apps.runs.algorithms.algorithm import Algorithm
from apps.runs.algorithms.section import Positive, Section
from apps.runs.algorithms.snapshot import Snapshot
from apps.runs.budget import Budget
from apps.runs.evaluation import MAX_SCHEDULES, Evaluation, Scheduled
from apps.runs.hacking import Hacking
from apps.runs.optimizer import Optimizer
from apps.runs.people import People
from apps.runs.pipeline import MAKE_EXPERTS, MAX_OPERATORS, OperatorChoice
from apps.runs.precision import Precision
from apps.runs.processes import Processes
from apps.runs.reading import Reading
from apps.runs.replay import Replay
from apps.runs.retention import Retention
from apps.runs.sampling import Sampling
from apps.runs.scorer_choice import ScorerChoice as ScorerChoice  # part of this module too
from apps.runs.selection import Selection, Shuffle
from apps.runs.serving import Serve
from apps.runs.vllm import Vllm
from apps.tasksets.judged_by import Kind

MAX_PROBLEMS = 50  # that an error names


class ConfigError(ValueError):
    """Raised for an invalid configuration; `problems` maps a dotted field to its problem.

    It also says what is right.
    """

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = dict(itertools.islice(problems.items(), MAX_PROBLEMS))
        if len(problems) > MAX_PROBLEMS:
            words = f"has {len(problems):,} problems; these are the first {MAX_PROBLEMS}"
            self.problems["configuration"] = words
        lines = (f"{field}: {problem}" for field, problem in self.problems.items())
        super().__init__("; ".join(lines))


class EnvironmentChoice(Section):
    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$",
        description="An environment of the project or of the library.",
    )
    max_turns: int | None = Field(
        None,
        ge=1,
        le=1000,
        description=(
            "Maximum number of actions in an episode. If empty, the environment's limit applies."
        ),
    )
    weight: float = Field(
        1.0,
        allow_inf_nan=False,
        description="Weight of the episode's reward in the combined reward.",
    )
    reward_s: float | None = Field(
        None,
        ge=0,
        le=2_592_000,
        description=(
            "How long after the end of an episode its rewards may arrive, in seconds. If empty, "
            "the environment's limit applies."
        ),
    )
    options: dict[str, JsonValue] = Field(
        {}, description="Passed to the environment at each reset, together with the task's options."
    )


class LengthPenalty(Section):
    weight: Positive = Field(
        0.5,
        le=100,
        description=(
            "Weight of the length reward (−0.5 to 0.5 within a group) relative to the other "
            "rewards."
        ),
    )
    from_step: int = Field(
        0,
        ge=0,
        description=(
            "First step that uses the length reward, so that the policy learns to be correct first."
        ),
    )


class Lora(Section):
    rank: int = Field(16, ge=1, le=1024, description="Rank of the low-rank adapters.")
    alpha: Positive = Field(
        32.0, le=65_536, description="The output of an adapter is multiplied by alpha / rank."
    )
    target_modules: tuple[str, ...] = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Name endings of the layers that get an adapter.",
    )


class Checkpoints(Section):
    every: int = Field(
        10,
        ge=1,
        description=(
            "Steps between two checkpoints. After a crash, the steps since the last checkpoint run "
            "again."
        ),
    )
    keep: int = Field(
        2,
        ge=2,
        description=(
            "Number of checkpoints to keep. At least two, so that a crash while one is written "
            "leaves the other."
        ),
    )
    weights: int = Field(
        5,
        ge=2,
        description=(
            "Number of the newest published weight versions whose files are kept. The newest "
            "version of each live engine is also kept."
        ),
    )
    milestones: int | None = Field(
        None,
        ge=1,
        description=(
            "Keeps the files of every nth version permanently, so that you can evaluate it, "
            "compare it or chat with it later. If empty, only the newest versions are kept."
        ),
    )


class RunConfig(Section):
    policy: str = Field(description="Name of the model to train.")
    taskset: str | None = Field(
        None,
        description=(
            "Name of the taskset that the run samples tasks from; with `serve`, of the taskset "
            "that stores the callers' prompts."
        ),
    )
    tasksets: dict[str, Annotated[int, Field(ge=1, le=100)]] = Field(
        {},
        max_length=20,
        description=(
            "Several tasksets by name, in place of `taskset`, each with its share of the sampled "
            "tasks."
        ),
    )
    steps: int = Field(
        ge=0,
        le=10_000_000,
        description="Planned optimizer steps; the run completes after them. 0 for an evaluation.",
    )
    group_size: int = Field(
        8, ge=1, le=1024, description="Number of rollouts sampled for each task."
    )
    groups_per_step: int = Field(
        16, ge=1, le=65_536, description="Number of groups in one optimizer step."
    )
    max_staleness: int = Field(
        1,
        ge=0,
        le=1000,
        description=(
            "Maximum age of an experience, in weight versions. 0 is synchronous, 1 is one step "
            "off-policy, larger values are asynchronous."
        ),
    )
    over_rollout: int | None = Field(
        None,
        ge=0,
        le=65_536,
        description=(
            "Number of groups to start beyond those that the next weight version needs. Steps use "
            "the groups that finish first; the others continue and serve a later step. If empty, "
            "as many as max_staleness allows."
        ),
    )
    sync_interval: int = Field(1, ge=1, description="Steps between two published weight versions.")
    engine: Literal["auto", "vllm", "transformers"] = Field(
        "auto",
        description=(
            "Engine that samples. auto uses vLLM, if installed, on a GPU, and on a CPU for 100 "
            "million parameters or more (250 million on x86 processors of other makers than "
            "Intel); otherwise transformers."
        ),
    )
    precision: Precision = Field(
        Precision(), description="Number format in which the engine and the trainer compute."
    )
    vllm: Vllm = Field(Vllm(), description="Settings of vLLM, if it is the engine.")
    trainer: Processes = Field(
        Processes(), description="Number of trainer processes, and how they share the weights."
    )
    seed: int = Field(
        0, ge=0, lt=2**31, description="Seed for the order of tasks, sampling and training."
    )
    group_attempts: int = Field(
        3,
        ge=1,
        le=10,
        description=(
            "Number of failures in a row without progress after which a group is dropped."
        ),
    )
    task_attempts: int = Field(
        3,
        ge=1,
        le=100,
        description=(
            "Number of groups of a task that may be dropped because of failures before the run "
            "stops sampling the task."
        ),
    )
    selection: Selection = Field(Shuffle(), description="Rule by which the run selects tasks.")
    sampling: Sampling = Sampling()
    rewards: tuple[ScorerChoice, ...] = Field(
        (), max_length=100, description="Machine scorers and their weights."
    )
    environment: EnvironmentChoice | None = Field(
        None,
        description=(
            "Environment that the policy acts in. If empty, the policy replies to each task "
            "without one."
        ),
    )
    serve: Serve | None = Field(
        None,
        description=(
            "Trains on the replies to callers that send their own prompts. If empty, the run "
            "samples tasks from its taskset."
        ),
    )
    people: People = People()
    length_penalty: LengthPenalty | None = Field(
        None, description="Rewards short replies and penalizes long ones within a group."
    )
    pipeline: tuple[OperatorChoice, ...] = Field(
        (),
        max_length=MAX_OPERATORS,
        description=(
            "Operators between rollout and training, in order. If empty, everything passes "
            "unchanged."
        ),
    )
    reading: Reading = Field(
        Reading(),
        description=(
            "Which of the groups that are ready a step trains on, and which groups it reuses."
        ),
    )
    algorithm: Algorithm = Field(
        Algorithm.model_validate({}),  # its own validator fills in the parts of the default
        description=(
            "How advantages and the loss are computed: an algorithm by name, with changes."
        ),
    )
    snapshot: Snapshot | None = Field(
        None,
        description="Lessons to train on, for algorithms that sample nothing (sft, dpo, kto, …).",
    )
    replay: Replay | None = Field(
        None,
        description=(
            "Trains again on the recorded data of another run. If empty, the run samples its own "
            "data."
        ),
    )
    evaluations: tuple[Scheduled, ...] = Field(
        (),
        max_length=MAX_SCHEDULES,
        description=(
            "Automatic evaluations: which versions, on which tasks. If empty, there are none."
        ),
    )
    evaluation: Evaluation | None = Field(
        None,
        description=(
            "Evaluates weights on each task once and trains nothing. If empty, the run trains."
        ),
    )
    lora: Lora | None = Field(
        None, description="Trains low-rank adapters only. If empty, the run trains all weights."
    )
    tower: Literal["frozen", "trained"] = Field(
        "frozen",
        description="Whether to train the vision tower of a policy that sees pictures.",
    )
    hacking: Hacking = Field(
        Hacking(),
        description="When to suspect reward hacking.",
    )
    alerts: Alerts = Field(Alerts(), description="When the run needs your attention.")
    budget: Budget | None = Field(
        None,
        description=(
            "Limits on what the run uses; the run pauses when it reaches one. If empty, there are "
            "no limits."
        ),
    )
    optimizer: Optimizer = Optimizer()
    checkpoints: Checkpoints = Checkpoints()
    retention: Retention | None = Field(
        None,
        description=(
            "When to delete token ids, logprobs and masks of rollouts. If empty, they are kept, or "
            "after the end of the run the installation's setting applies."
        ),
    )

    @model_validator(mode="after")
    def _somebody_judges(self) -> "RunConfig":
        if self.algorithm.learns_from_lessons:
            return self
        if not self.judges and not self.people.per_group:
            raise ValueError(
                "add a scorer under `rewards`, add an `environment`, or ask people with "
                "`people.per_group`"
            )
        if not self.judges and self.people.at_deadline == "machine_only":
            raise ValueError(
                "`people.at_deadline: machine_only` needs a scorer under `rewards`; use `drop` or"
                " `fill_with_rater_model`"
            )
        if self.people.per_group > self.group_size:
            raise ValueError(
                f"people.per_group is {self.people.per_group}, more than group_size"
                f" {self.group_size}"
            )
        if not math.isfinite(self.sampling.temperature):
            raise ValueError("sampling.temperature must be a number")
        return self

    @property
    def taskset_names(self) -> tuple[str, ...]:
        """Return the slugs of the tasksets that the run samples from, in order."""
        if self.taskset is not None and not self.tasksets:
            return (self.taskset,)
        return tuple(sorted(self.tasksets))

    def judges_of(self, kind: Kind) -> tuple[ScorerChoice, ...]:
        """Return the machines whose words make the reward of a rollout at a task of this kind."""
        return self._with_environment(self.scorers_of(kind))

    def scorers_of(self, kind: Kind) -> tuple[ScorerChoice, ...]:
        """Return the scorers that the task names, or those of its domain if it names none."""
        if kind.judged_by:
            return tuple(choice for choice in self.rewards if choice.scorer in kind.judged_by)
        return tuple(
            choice for choice in self.rewards if not choice.domains or kind.domain in choice.domains
        )

    @property
    def judges(self) -> tuple[ScorerChoice, ...]:
        """Return the scorers that make rollouts' rewards, and the environment by its name."""
        return self._with_environment(self.rewards)

    def _with_environment(self, chosen: tuple[ScorerChoice, ...]) -> tuple[ScorerChoice, ...]:
        if self.environment is None:
            return chosen
        return (*chosen, ScorerChoice(scorer=self.environment.name, weight=self.environment.weight))

    @property
    def samples(self) -> bool:
        """Tell whether an explorer samples for the run.

        That is not so if it learns from lessons, or from another run's rollouts.
        """
        return not self.algorithm.learns_from_lessons and self.replay is None

    def max_text_tokens(self) -> int | None:
        """Return the most tokens of prompt and answer together, None where prompts have no
        limit.
        """
        max_prompt = self.sampling.max_prompt_tokens
        return None if max_prompt is None else max_prompt + self.sampling.max_tokens

    def room_in(self, context: int) -> int:
        """Return the tokens that a text of this run may have, of a policy that reads `context`.

        An evaluation asks every task, whatever its length.
        """
        if self.evaluation:
            return context
        length = self.vllm.max_model_len or self.max_text_tokens() or context
        return min(length, context) if context else length

    @property
    def takes_turns(self) -> bool:
        """Tell whether engine and trainer wait for each other instead of overlapping."""
        return self.samples and self.max_staleness == 0

    @property
    def usual_rows_per_step(self) -> int:
        """Return rows of a step that the run sampled itself, or lessons of its snapshot."""
        if self.snapshot:
            return self.snapshot.rows
        kept_rollouts = getattr(
            self.algorithm.advantage, "keep", self.group_size
        )  # RAFT imitates the best alone
        return min(kept_rollouts, self.group_size) * self.groups_per_step

    @property
    def groups_again_per_step(self) -> int:
        """Return how many groups of a step may at most be taken again by experience replay."""
        return self.reading.replay.max_reused(self.groups_per_step)

    @property
    def expert_rows_per_step(self) -> int:
        """Return how many expert rows make `expert.ratio` of the whole batch, rounded up."""
        ratio = self.algorithm.expert.ratio
        return math.ceil(round(self.usual_rows_per_step * ratio / (1 - ratio), 9))

    @property
    def makes_experts(self) -> bool:
        """Tell whether the pipeline makes expert rows of the run's own answers during training."""
        return any(choice.operator in MAKE_EXPERTS for choice in self.pipeline)

    @property
    def rows_per_step(self) -> int:
        return self.usual_rows_per_step + self.expert_rows_per_step
