"""Presets of configurations for new runs; policy, taskset and scorer come from the project."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from apps.accounts.models import Project
from apps.dashboard.estimate import trains_on_cpu
from apps.policies.models import Policy
from apps.rewards.unreadable_tasks import choose_sample_tasks, reads
from apps.runs.config import RunConfig
from apps.runs.optimizer import SMALL_MODEL, usual_learning_rate
from apps.runs.parsing import load_yaml
from apps.tasksets.models import Taskset

LOOKED_THROUGH = 50  # the project's newest tasksets
SCORERS_NAMED = 2
# At temperature 1 the replies of a language model below this size are close to random text.
COOLED_BELOW = 300_000_000  # parameters
COOLED = 0.7
# Limits for a language model on a CPU, so that a step takes a minute and not an hour.
CPU_TOKENS = 128
CPU_GROUPS = 4


@dataclass(frozen=True)
class Preset:
    """A preset; the first of `scorers` that can judge a taskset is used; none: any taskset fits.

    `options` are those of the scorer. `people_alone` are the values under which people judge
    alone, for tasksets that no scorer can judge; empty: the preset needs a scorer. `needs` is a
    field of RunConfig without which the preset is not available. `rate` is the learning rate as a
    multiple of the usual one for the size of the model (usual_learning_rate); 0: the preset's own.
    """

    name: str
    title: str
    why: str
    values: Mapping[str, Any]
    scorers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    people_alone: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    rate: float = 0.0

    @property
    def rewards(self) -> list[dict[str, Any]]:
        return self.judged_by(self.scorers[0]) if self.scorers else []

    def judged_by(self, scorer: str) -> list[dict[str, Any]]:
        return [{"scorer": scorer, **({"options": self.options} if self.options else {})}]


def _of_example(name: str, title: str, why: str) -> Preset:
    """Return a preset from the folder examples; its first scorer judges."""
    data = load_yaml((settings.FILES / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(data, dict)  # a file of ours
    scorers = tuple(choice["scorer"] for choice in data["rewards"])
    of_project = ("policy", "taskset", "rewards")
    values = {field: value for field, value in data.items() if field not in of_project}
    return Preset(name, title, why, values, scorers)


# Scorers that compare an answer with the task's, what reads most first.
RIGHT_ANSWERS = ("math", "choice", "quantity", "chemistry", "countdown", "sort")
PRESETS = (
    Preset(
        "tone",
        "Tone with people",
        "People rate replies with stars while the run trains. A rule that can judge the prompts"
        " scores unrated replies.",
        {
            "steps": 200,
            "group_size": 8,
            "groups_per_step": 16,
            "sampling": {"max_tokens": 48},
            "people": {"per_group": 4, "deadline_s": 600, "at_deadline": "machine_only"},
            "algorithm": {
                "name": "grpo",
                "loss": {"clip_high": 0.28},
                "aggregation": "token-mean",
                "kl": "none",
            },
        },
        ("tone", "tone_dialogue"),
        rate=1.0,
        # Every reply waits for a person: few of them in a step, and time to rate them.
        people_alone={
            "group_size": 4,
            "groups_per_step": 4,
            "people": {"per_group": 4, "deadline_s": 3600, "at_deadline": "drop"},
        },
    ),
    Preset(
        "math",
        "Math GRPO",
        "Compares final answers with the correct ones. Many replies per task, no reference model.",
        {
            "steps": 200,
            "group_size": 8,
            "groups_per_step": 16,
            "sampling": {"max_tokens": 1024},
            "algorithm": {
                "name": "grpo",
                "loss": {"clip_high": 0.28},
                "aggregation": "token-mean",
                "kl": "none",
            },
        },
        ("math",),
        rate=1.0,
    ),
    Preset(
        "code",
        "Code",
        "Runs programs against hidden tests in the sandbox. Partial passes count.",
        {
            "steps": 200,
            "group_size": 8,
            "groups_per_step": 16,
            "sampling": {"max_tokens": 2048},
            "algorithm": {"name": "dapo"},
        },
        ("code",),
        {"partial": True},
        rate=1.0,
    ),
    Preset(
        "mix",
        "MIX from demonstrations",
        "One eighth of each batch are demonstrations by people or stronger models.",
        {
            "steps": 200,
            "group_size": 8,
            "groups_per_step": 14,
            "sampling": {"max_tokens": 256},
            "algorithm": {
                "name": "mix",
                "loss": {"clip_high": 0.28},
                "aggregation": "token-mean",
                "kl": "none",
                "expert": {"ratio": 0.125, "mu": 0.2, "source": "buffer"},
            },
        },
        RIGHT_ANSWERS,
        rate=1.0,
    ),
    Preset(
        "dpo",
        "DPO from ratings",
        "Trains on people's preferences. Samples nothing.",
        {
            "steps": 100,
            "snapshot": {"source": "preferences", "rows": 32},
            "algorithm": {"name": "dpo", "loss": {"beta": 0.1}},
        },
        rate=0.5,
    ),
    Preset(
        "evaluation",
        "Evaluation only",
        "Measures a policy on a taskset without training.",
        {"steps": 0, "group_size": 4, "evaluation": {}},
        (*RIGHT_ANSWERS, "code", "tone", "tone_dialogue"),
        needs="evaluation",
    ),
    _of_example(
        "gpu-0.5b",
        "One GPU, 0.5 B",
        "Full weights of 0.5 billion parameters on 80 GB. Engine and trainer work at the same"
        " time.",
    ),
    _of_example(
        "gpu-1.5b-full",
        "One GPU, 1.5 B",
        "Full weights of 1.5 billion parameters on 80 GB. Engine and trainer take turns.",
    ),
    _of_example(
        "gpu-7b-lora",
        "One GPU, 7 B LoRA",
        "LoRA adapters on 7 billion parameters on 80 GB. Engine and trainer take turns.",
    ),
    Preset("nothing", "Blank", "Policy, taskset and default settings.", {}),
)


def presets() -> list[Preset]:
    """Return the presets whose sections the configuration has."""
    return [
        preset for preset in PRESETS if not preset.needs or preset.needs in RunConfig.model_fields
    ]


def choose_initial_values(
    preset: Preset,
    project: Project,
    chosen_taskset: Taskset | None = None,
    policy: Policy | None = None,
) -> dict[str, Any]:
    """Return the initial values: preset, newest taskset that its scorer can judge, and policy.

    The taskset is left out if there is none. A `chosen_taskset` is used in any case, with the first
    of the preset's scorers that reads its answers. If none does, and the preset lets people judge
    alone, they do. Without a `policy`, that of the taskset's newest run is used.
    """
    taskset, rewards = (
        _fitting_taskset(preset, project)
        if chosen_taskset is None
        else _with_scorer(preset, chosen_taskset)
    )
    policy = policy or _policy_for(project, taskset)
    values = preset.values if rewards else {**preset.values, **preset.people_alone}
    if policy and preset.rate:
        values = _fit_to_model(values, preset.rate, policy.parameters)
    slug = policy.slug if policy else None
    initial_values = {"policy": slug, "taskset": taskset, **values, "rewards": rewards}
    return {name: value for name, value in initial_values.items() if value not in (None, [])}


def choose_preset(taskset: Taskset | None) -> Preset:
    """Return the first preset with a scorer that reads the taskset; the first of all if none does.

    One query with a taskset.
    """
    available = presets()
    tasks = choose_sample_tasks(taskset) if taskset else []
    for preset in available:
        if tasks and any(reads(scorer, tasks) for scorer in preset.scorers):
            return preset
    return available[0]


def _fit_to_model(values: Mapping[str, Any], rate: float, parameters: int) -> dict[str, Any]:
    """Return the values with the learning rate, temperature and lengths that suit the model."""
    usual = usual_learning_rate(parameters, lora=False)
    fitted = {**values, "optimizer": {"learning_rate": rate * usual}}
    if parameters < SMALL_MODEL or "sampling" not in values:
        return fitted
    sampling = dict(values["sampling"])
    if trains_on_cpu():
        sampling["max_tokens"] = min(sampling["max_tokens"], CPU_TOKENS)
        fitted["groups_per_step"] = min(values["groups_per_step"], CPU_GROUPS)
    if parameters < COOLED_BELOW:
        sampling["temperature"] = COOLED
    return {**fitted, "sampling": sampling}


def lacking(preset: Preset, values: Mapping[str, Any]) -> str:
    """Return why the form has no taskset; "" if it has one."""
    if "taskset" in values:
        return ""
    if not preset.scorers or preset.people_alone:
        return "The project has no taskset yet."
    names = " or ".join(preset.scorers[:SCORERS_NAMED])
    return (
        f"None of the project's newest tasksets has answers for the scorer {names}, so no taskset"
        " is selected."
    )


def _fitting_taskset(preset: Preset, project: Project) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the newest taskset whose answers one of the scorers reads, with the scorer.

    If there is none and people can judge alone, return the newest taskset without a scorer. One
    query, and one for each taskset examined.
    """
    newest = None
    for taskset in project.tasksets.order_by("-pk")[:LOOKED_THROUGH]:
        tasks = choose_sample_tasks(taskset) if preset.scorers else []
        scorer = next((name for name in preset.scorers if reads(name, tasks)), None)
        if scorer or not preset.scorers:
            return taskset.slug, preset.judged_by(scorer) if scorer else []
        newest = newest or taskset.slug
    return (newest, []) if newest and preset.people_alone else (None, preset.rewards)


def _with_scorer(preset: Preset, taskset: Taskset) -> tuple[str, list[dict[str, Any]]]:
    """Return the taskset with the scorer that reads it.

    If none does: without a scorer where people can judge alone, else with the preset's scorers.
    """
    tasks = choose_sample_tasks(taskset) if preset.scorers else []
    scorer = next((name for name in preset.scorers if reads(name, tasks)), None)
    if scorer:
        return taskset.slug, preset.judged_by(scorer)
    return taskset.slug, [] if preset.people_alone else preset.rewards


def _policy_for(project: Project, taskset: str | None) -> Policy | None:
    """Return the policy of the taskset's newest run, else the project's newest policy."""
    runs = project.runs.filter(taskset__slug=taskset).select_related("policy").order_by("-pk")
    newest = runs.first()
    return newest.policy if newest else project.policies.order_by("-pk").first()
