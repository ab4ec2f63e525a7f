"""Snapshots for runs that learn from lessons: which lessons, and how many for each step."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Section

# The rows of the table that train from a snapshot, and what each can learn from.
SOURCES = {
    "sft": "demonstrations",
    "dpo": "preferences",
    "kto": "thumbs",
    "reward_model": "preferences",
}


class Snapshot(Section):
    """Filter of the lessons, fixed when the run begins; by default all of the project's."""

    source: Literal["demonstrations", "preferences", "thumbs"] = Field(
        description="What to train on."
    )
    rows: int = Field(
        32, ge=2, le=65_536, description="Number of lessons in one step; for preferences, pairs."
    )
    taskset: str | None = Field(None, description="Only lessons about tasks of this taskset.")
    run: str | None = Field(None, description="Only lessons from this run's rollouts.")
    imported_as: str | None = Field(None, description="Only lessons from this imported file.")


def find_snapshot_problem(algorithm: str, snapshot: Snapshot | None) -> str:
    """Return why this algorithm cannot learn with this `snapshot` section; "" if it can."""
    source = SOURCES.get(algorithm)
    if source is None:
        return (
            f"`snapshot` is for {', '.join(SOURCES)}; `{algorithm}` learns from its own rollouts:"
            " remove it"
            if snapshot
            else ""
        )
    if snapshot is None:
        return (
            f"`algorithm.name: {algorithm}` learns from a snapshot: add `snapshot: {{source:"
            f" {source}}}`"
        )
    if snapshot.source != source:
        return (
            f"`algorithm.name: {algorithm}` learns from {source}, not from {snapshot.source}: set"
            f" `snapshot.source: {source}`"
        )
    return ""
