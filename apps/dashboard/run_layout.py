"""Where each setting stands on the page of a new run: one of three steps, or a group of Advanced.

A setting belongs to the place that names its address, or the closest section around it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apps.alerts.kinds import TITLES as ALERTS
from apps.dashboard.knobs import Knob
from apps.dashboard.people_form import GROUPS as PEOPLE

# A heading within a step or a group, and the addresses below it.
Block = tuple[str, tuple[str, ...]]

# (key, title, description, blocks)
STEPS: tuple[tuple[str, str, str, tuple[Block, ...]], ...] = (
    (
        "what",
        "What",
        "The model, the prompts, and how it learns.",
        (("", ("policy", "taskset", "algorithm.name")),),
    ),
    (
        "judges",
        "Who judges",
        "Rewards come from rules, models, people or an environment, or from several of them.",
        (
            ("Rules and models", ("rewards",)),
            (
                "People",
                (
                    "people.per_group",
                    "people.form",
                    "people.form_options",
                    "people.deadline_s",
                    "people.at_deadline",
                    "people.simulated",
                ),
            ),
            ("Environment", ("environment", "environment.name")),
        ),
    ),
    (
        "amount",
        "How much",
        "",
        (
            (
                "Steps",
                (
                    "steps",
                    "groups_per_step",
                    "group_size",
                    "sampling.max_tokens",
                    "optimizer.learning_rate",
                ),
            ),
            ("Hardware", ("engine", "trainer.processes", "lora", "lora.rank")),
            ("Budget", ("budget",)),
        ),
    ),
)
# (title, description, addresses); the last group has every setting that no other place names.
GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Algorithm", "Defaults follow each algorithm's paper.", ("algorithm", "length_penalty")),
    ("Sampling", "", ("sampling",)),
    ("Optimizer", "", ("optimizer",)),
    ("LoRA and vision", "", ("lora", "tower")),
    ("People", "What raters see, who may rate, and what a rating does.", ("people",)),
    ("Task selection", "", ("tasksets", "selection")),
    ("Environment", "", ("environment",)),
    ("Serving", "Trains on the replies to callers.", ("serve",)),
    ("Pipeline and buffer", "", ("pipeline", "reading")),
    ("Evaluation", "During training or instead of it.", ("evaluations", "evaluation")),
    ("Offline data and replay", "For runs that sample nothing.", ("snapshot", "replay")),
    ("Engine", "", ("precision.engine", "vllm")),
    ("Trainer", "", ("precision.trainer", "trainer")),
    (
        "Pace and limits",
        "",
        (
            "max_staleness",
            "over_rollout",
            "sync_interval",
            "group_attempts",
            "task_attempts",
            "seed",
        ),
    ),
    ("Checkpoints and retention", "", ("checkpoints", "retention")),
    ("Alerts", "When the run needs your attention, and whether it pauses.", ("alerts",)),
    ("Reward hacking", "When to suspect it.", ("hacking",)),
    ("More", "", ()),
)
# Headings within the groups, by the section that they are about.
HEADINGS: Mapping[str, str] = {
    "algorithm.advantage": "Advantage",
    "algorithm.loss": "Loss",
    "algorithm.kl": "KL penalty",
    "algorithm.entropy": "Entropy bonus",
    "algorithm.reference": "Reference model",
    "algorithm.expert": "Expert rows",
    "algorithm.expert.loss": "Loss of expert rows",
    "algorithm.expert.schedule": "Share of expert rows over time",
    "length_penalty": "Length penalty",
    "sampling.repeats": "Loops in replies",
    "lora": "LoRA",
    "selection": "Selection",
    "reading.order": "Order of reading",
    "reading.replay": "Reuse of groups",
    "snapshot": "Lessons",
    "replay": "Replay of a run",
    "evaluation": "Evaluation only",
    "checkpoints": "Checkpoints",
    "retention": "Retention",
    **{f"people.{address}": title for title, _, addresses in PEOPLE for address in addresses},
    **{f"alerts.{rule}": title for rule, title in ALERTS.items()},
}


@dataclass(frozen=True)
class Part:
    """Settings under one heading; "" is no heading."""

    title: str
    knobs: tuple[Knob, ...]


@dataclass(frozen=True)
class Place:
    """A step or a group of Advanced; `key` is its id on the page."""

    key: str
    title: str
    why: str
    parts: tuple[Part, ...]

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(knob for part in self.parts for knob in part.knobs)

    @property
    def is_wrong(self) -> bool:
        return any(knob.wrong for knob in self.knobs)

    @property
    def changed(self) -> int:
        """Return how many settings differ from their defaults."""
        return sum(knob.is_changed for knob in self.knobs)


def laid_out(knobs: Iterable[Knob]) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Return the steps and the groups of Advanced with these fields; empty groups are left out."""
    among: dict[tuple[str, str], list[Knob]] = {}
    for knob in knobs:
        among.setdefault(_home_of(knob.address), []).append(knob)
    steps = tuple(
        Place(key, title, why, tuple(_blocks(key, blocks, among)))
        for key, title, why, blocks in STEPS
    )
    groups = (
        Place(_key(title), title, why, _parts(_in_order(among.get((title, ""), []), addresses)))
        for title, why, addresses in GROUPS
    )
    return steps, tuple(group for group in groups if group.parts)


def _key(title: str) -> str:
    return title.lower().replace(" ", "-")


# Address → the step and its block, or the group and "".
HOMES: Mapping[str, tuple[str, str]] = {
    **{address: (title, "") for title, _, addresses in GROUPS for address in addresses},
    **{
        address: (key, heading)
        for key, _, _, blocks in STEPS
        for heading, addresses in blocks
        for address in addresses
    },
}
# Sections of which a step has only the named fields; the others are in the section's group.
OF_A_GROUP = {"environment": ("Environment", ""), "lora": ("LoRA and vision", "")}


def _home_of(address: str) -> tuple[str, str]:
    if address in HOMES:
        return HOMES[address]
    section = address.rpartition(".")[0]
    while section:
        if section in OF_A_GROUP:
            return OF_A_GROUP[section]
        if section in HOMES:
            return HOMES[section]
        section = section.rpartition(".")[0]
    return GROUPS[-1][0], ""


def _blocks(
    key: str, blocks: Sequence[Block], among: Mapping[tuple[str, str], list[Knob]]
) -> Iterable[Part]:
    for heading, addresses in blocks:
        yield Part(heading, tuple(_in_order(among.get((key, heading), []), addresses)))


def _in_order(knobs: list[Knob], addresses: tuple[str, ...]) -> list[Knob]:
    return sorted(knobs, key=lambda knob: _rank(knob.address, addresses))


def _rank(address: str, addresses: tuple[str, ...]) -> int:
    """Return the place of the address, or of the closest section around it."""
    while address and address not in addresses:
        address = address.rpartition(".")[0]
    return addresses.index(address) if address else len(addresses)


def _parts(knobs: Iterable[Knob]) -> tuple[Part, ...]:
    """Gather fields by their headings, in the order of each heading's first field.

    Those without a heading come first.
    """
    by_heading: dict[str, list[Knob]] = {"": []}
    for knob in knobs:
        by_heading.setdefault(_heading_of(knob.address), []).append(knob)
    return tuple(Part(title, tuple(knobs)) for title, knobs in by_heading.items() if knobs)


def _heading_of(address: str) -> str:
    while address and address not in HEADINGS:
        address = address.rpartition(".")[0]
    return HEADINGS.get(address, "")
