"""Runs that learn from lessons (demonstrations, preferences, thumbs) in place of their own rollouts: which, and how many."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Section

# The rows of the table that train from a snapshot, and what each can learn from.
SOURCES = {"sft": "demonstrations", "dpo": "preferences", "kto": "thumbs", "reward_model": "preferences"}


class Snapshot(Section):
    """Which lessons are frozen when the run begins. Without a filter: all of the project."""

    source: Literal["demonstrations", "preferences", "thumbs"] = Field(description="What the run learns from.")
    rows: int = Field(32, ge=2, le=65_536, description="Lessons in one optimiser update; of preferences, pairs.")
    taskset: str | None = Field(None, description="Only lessons about tasks of this taskset.")
    run: str | None = Field(None, description="Only lessons drawn from, or said about, this run's rollouts.")
    imported_as: str | None = Field(None, description="Only lessons of this source: an imported file's name.")


def problem_of(algorithm: str, snapshot: Snapshot | None) -> str:
    """Why this algorithm cannot learn with this `snapshot` section, or an empty text."""
    source = SOURCES.get(algorithm)
    if source is None:
        return f"`snapshot` is for {', '.join(SOURCES)}; `{algorithm}` learns from its own rollouts: remove it" if snapshot else ""
    if snapshot is None:
        return f"`algorithm.name: {algorithm}` learns from a snapshot: add `snapshot: {{source: {source}}}`"
    if snapshot.source != source:
        return f"`algorithm.name: {algorithm}` learns from {source}, not from {snapshot.source}: set `snapshot.source: {source}`"
    return ""
