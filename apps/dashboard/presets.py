"""Configurations to begin with, each for one purpose; policy and taskset are filled in from the project."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Project
from apps.runs.config import RunConfig


@dataclass(frozen=True)
class Preset:
    """`tasksets`: beginnings of slugs that suit it, the best first. `needs`: the field of RunConfig without which there is none."""

    name: str
    title: str
    why: str
    said: Mapping[str, Any]
    tasksets: tuple[str, ...] = ()
    needs: str = ""


PRESETS = (
    Preset(
        "tone", "Tone with people", "People rate replies with stars while the run learns; a rule judges what nobody rated.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 16, "sampling": {"max_tokens": 48}, "rewards": [{"scorer": "tone"}],
            "people": {"per_group": 4, "deadline_s": 600, "at_deadline": "machine_only"},
            "algorithm": {"name": "grpo", "loss": {"clip_high": 0.28}, "aggregation": "token-mean", "kl": "none"},
            "optimizer": {"learning_rate": 5e-4},
        },
        ("tone",),
    ),
    Preset(
        "math", "Math GRPO", "Final answers are compared with the right ones; many answers to each task, no reference model.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 16, "sampling": {"max_tokens": 1024}, "rewards": [{"scorer": "math"}],
            "algorithm": {"name": "grpo", "loss": {"clip_high": 0.28}, "aggregation": "token-mean", "kl": "none"},
            "optimizer": {"learning_rate": 1e-6},
        },
        ("math", "gsm", "aime", "arithmetic"),
    ),
    Preset(
        "code", "Code", "Programs are run against hidden tests in the sandbox; each passing share counts.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 16, "sampling": {"max_tokens": 2048},
            "rewards": [{"scorer": "code", "options": {"partial": True}}],
            "algorithm": {"name": "dapo"}, "optimizer": {"learning_rate": 1e-6},
        },
        ("code", "program", "humaneval", "mbpp"),
    ),
    Preset(
        "mix", "MIX from demonstrations", "An eighth of each update are answers that people or stronger models wrote.",
        {
            "steps": 200, "group_size": 8, "groups_per_step": 14, "sampling": {"max_tokens": 256}, "rewards": [{"scorer": "math"}],
            "algorithm": {
                "name": "mix", "loss": {"clip_high": 0.28}, "aggregation": "token-mean", "kl": "none",
                "expert": {"ratio": 0.125, "mu": 0.2, "source": "buffer"},
            },
            "optimizer": {"learning_rate": 1e-5},
        },
        ("math", "sort"),
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
        {"steps": 0, "group_size": 4, "evaluation": {}, "rewards": [{"scorer": "math"}]}, ("math",), needs="evaluation",
    ),
)  # fmt: skip


def presets() -> list[Preset]:
    """Those that the configuration has the sections for."""
    return [preset for preset in PRESETS if not preset.needs or preset.needs in RunConfig.model_fields]


def begun(preset: Preset, project: Project) -> dict[str, Any]:
    """What the form begins with: the preset, the project's taskset that suits it best, and a policy."""
    slugs = list(project.tasksets.order_by("-pk").values_list("slug", flat=True)[:500])
    suits = [slug for start in preset.tasksets for slug in slugs if slug.startswith(start)]
    taskset = next(iter([*suits, *slugs]), None)
    policy = _policy_for(project, taskset)
    return {**({"policy": policy} if policy else {}), **({"taskset": taskset} if taskset else {}), **preset.said}


def _policy_for(project: Project, taskset: str | None) -> str | None:
    """The one that the taskset's newest run took, for it can read these tasks; else the project's newest."""
    taken = project.runs.filter(taskset__slug=taskset).order_by("-pk").values_list("policy__slug", flat=True).first()
    return taken or project.policies.order_by("-pk").values_list("slug", flat=True).first()
