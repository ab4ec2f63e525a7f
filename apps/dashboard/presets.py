"""Configurations to begin with, each for one purpose; policy, taskset and scorer are filled in from the project."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.accounts.models import Project
from apps.rewards.unread import looked_at, reads
from apps.runs.config import RunConfig

LOOKED_THROUGH = 50  # the project's newest tasksets
SCORERS_NAMED = 2


@dataclass(frozen=True)
class Preset:
    """`scorers`: one of them judges, the first that can judge by a taskset; none: any taskset will do.

    `options`: of that scorer. `needs`: the field of RunConfig without which there is none.
    """

    name: str
    title: str
    why: str
    said: Mapping[str, Any]
    scorers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""

    @property
    def rewards(self) -> list[dict[str, Any]]:
        return self.judged_by(self.scorers[0]) if self.scorers else []

    def judged_by(self, scorer: str) -> list[dict[str, Any]]:
        return [{"scorer": scorer, **({"options": self.options} if self.options else {})}]


# Scorers that compare an answer with the task's, what reads most first.
RIGHT_ANSWERS = ("math", "choice", "quantity", "chemistry", "countdown", "sort")
PRESETS = (
    Preset(
        "tone", "Tone with people", "People rate replies with stars while the run learns; a rule judges what nobody rated.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 16, "sampling": {"max_tokens": 48},
            "people": {"per_group": 4, "deadline_s": 600, "at_deadline": "machine_only"},
            "algorithm": {"name": "grpo", "loss": {"clip_high": 0.28}, "aggregation": "token-mean", "kl": "none"},
            "optimizer": {"learning_rate": 5e-4},
        },
        ("tone", "tone_dialogue"),
    ),
    Preset(
        "math", "Math GRPO", "Final answers are compared with the right ones; many answers to each task, no reference model.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 16, "sampling": {"max_tokens": 1024},
            "algorithm": {"name": "grpo", "loss": {"clip_high": 0.28}, "aggregation": "token-mean", "kl": "none"},
            "optimizer": {"learning_rate": 1e-6},
        },
        ("math",),
    ),
    Preset(
        "code", "Code", "Programs are run against hidden tests in the sandbox; each passing share counts.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 16, "sampling": {"max_tokens": 2048},
            "algorithm": {"name": "dapo"}, "optimizer": {"learning_rate": 1e-6},
        },
        ("code",), {"partial": True},
    ),
    Preset(
        "mix", "MIX from demonstrations", "An eighth of each update are answers that people or stronger models wrote.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 14, "sampling": {"max_tokens": 256},
            "algorithm": {
                "name": "mix", "loss": {"clip_high": 0.28}, "aggregation": "token-mean", "kl": "none",
                "expert": {"ratio": 0.125, "mu": 0.2, "source": "buffer"},
            },
            "optimizer": {"learning_rate": 1e-5},
        },
        RIGHT_ANSWERS,
    ),
    Preset(
        "dpo", "DPO from ratings", "Learns from what people preferred, and samples nothing itself.",
        {
            "steps": 100, "snapshot": {"source": "preferences", "rows": 32},
            "algorithm": {"name": "dpo", "loss": {"beta": 0.1}}, "optimizer": {"learning_rate": 5e-6},
        },
    ),
    Preset(
        "evaluation", "Evaluation only", "Measures a policy on a taskset, and trains nothing.",
        {"steps": 0, "group_size": 4, "evaluation": {}}, (*RIGHT_ANSWERS, "code", "tone", "tone_dialogue"), needs="evaluation",
    ),
    Preset("nothing", "From nothing", "A policy and a taskset; all else as it begins.", {}),
)  # fmt: skip


def presets() -> list[Preset]:
    """Those that the configuration has the sections for."""
    return [preset for preset in PRESETS if not preset.needs or preset.needs in RunConfig.model_fields]


def begun(preset: Preset, project: Project) -> dict[str, Any]:
    """What the form begins with: the preset, the newest taskset that its scorer can judge by, and a policy.

    Where there is none such, no taskset.
    """
    taskset, rewards = _fitting(preset, project)
    policy = _policy_for(project, taskset)
    found = {"policy": policy, "taskset": taskset, **preset.said, "rewards": rewards}
    return {name: value for name, value in found.items() if value not in (None, [])}


def lacking(preset: Preset, said: Mapping[str, Any]) -> str:
    """Why the form begins without a taskset, and how there comes to be one; "" where it has one."""
    if "taskset" in said:
        return ""
    if not preset.scorers:
        return (
            "The project has no taskset yet: import a file of tasks under Tasksets, or draw some with manage.py taskset generate."
        )
    names = " or ".join(preset.scorers[:SCORERS_NAMED])
    return (
        f"None of the project's newest tasksets has answers that the scorer {names} can judge by, so none is chosen. Import a file "
        f"of such tasks under Tasksets, or draw some with manage.py taskset generate; docs/rewards.md says what {names} reads."
    )


def _fitting(preset: Preset, project: Project) -> tuple[str | None, list[dict[str, Any]]]:
    """The newest taskset whose answers one of the scorers reads, with that scorer; a query for each that is looked at, and one."""
    for taskset in project.tasksets.order_by("-pk")[:LOOKED_THROUGH]:
        tasks = looked_at(taskset) if preset.scorers else []
        scorer = next((name for name in preset.scorers if reads(name, tasks)), None)
        if scorer or not preset.scorers:
            return taskset.slug, preset.judged_by(scorer) if scorer else []
    return None, preset.rewards


def _policy_for(project: Project, taskset: str | None) -> str | None:
    """The one that the taskset's newest run took, for it can read these tasks; else the project's newest."""
    taken = project.runs.filter(taskset__slug=taskset).order_by("-pk").values_list("policy__slug", flat=True).first()
    return taken or project.policies.order_by("-pk").values_list("slug", flat=True).first()
