"""A run whose episodes were played and written: two groups of two in the library's guess_number;
one rollout failed.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.environments.closing import Ending, fail_episode, settle_episodes
from apps.environments.models import Episode
from apps.environments.playing import Action, observe, record_actions
from apps.environments.traces.exporting import write_trace_lines
from apps.policies.folder import FileEntry
from apps.policies.manifest import Manifest, Probe
from apps.policies.models import Policy
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.payload import Tokens
from apps.rollouts.turns import POLICY, USER, Turn
from apps.runs.models import Run

TOKENS = Tokens(
    (1, 2, 3),
    (10, 11, 20, 21, 12, 13),
    (-0.5, -0.25, 0.0, 0.0, -0.125, -2.0),
    (1, 1, 0, 0, 1, 1),
    ((0, 0), (4, 0)),
)
TURNS = (Turn(POLICY, "7", 0, 0, 2), Turn(USER, "lower", 3, 2, 2), Turn(POLICY, "3", 10, 4, 2))


def spelt_by(policy: Policy, folder: Path, tokenizer: str) -> Policy:
    """Put the policy into a folder whose tokenizer has this checksum."""
    folder.mkdir(exist_ok=True)
    manifest = Manifest(
        0,
        None,
        {"tokenizer.json": FileEntry(tokenizer * 64, 10)},
        {},
        "0" * 64,
        Probe((1, 2), (-0.1,)),
    )
    (folder / "manifest.json").write_text(manifest.to_json())
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3", "vocab_size": 100}))
    policy.folder = str(folder)
    policy.save(update_fields=["folder"])
    return policy


@pytest.fixture
def policy(policy, tmp_path) -> Policy:
    return spelt_by(policy, tmp_path / "policy", "a")


@pytest.fixture
def played(guessing, new_run, opened) -> Run:
    run = new_run(environment={"name": "guess_number", "options": {"high": 9}}, rewards=[])
    first, second, third, broken = [*opened(guessing, run), *opened(guessing, run)]
    fail_episode(broken.pk, "took longer than 2 s")
    outcomes = [
        _played(episode, earned) for episode, earned in ((first, 1.0), (second, 0.0), (third, 1.0))
    ]
    outcomes.append(
        Outcome(broken.rollout_id, None, "", "environment failed: took longer than 2 s")
    )
    groups = Group.objects.filter(run=run)
    Group.finish_rollouts({group.pk: group.claimed for group in groups}, outcomes)
    failures = {
        outcome.rollout_id: outcome.stop_reason for outcome in outcomes if outcome.tokens is None
    }
    settle_episodes(
        [
            Ending(e.pk, e.rollout_id, "turn limit", failures.get(e.rollout_id, ""))
            for e in Episode.objects.filter(run=run)
        ]
    )
    return run


def _played(episode: Episode, earned: float) -> Outcome:
    observe(episode.pk, 0, "")
    record_actions([Action(episode.pk, 0, "7", 0, 2, 3)])
    observe(episode.pk, 1, "lower", reward=0.0, info={"tries": 1})
    record_actions([Action(episode.pk, 1, "3", 4, 2, 7, is_cut=True)])
    observe(episode.pk, 2, [{"role": "tool", "content": "yes"}], reward=earned, done=True)
    return Outcome(episode.rollout_id, TOKENS, "7\n\nlower\n\n3", "length", TURNS)


@pytest.fixture
def file_of(tmp_path) -> Callable[..., Path]:
    """Return a function that writes the run's lines, or the given ones, to a file."""

    def write(run: Run | None = None, lines: list[dict] | None = None) -> Path:
        path = tmp_path / "episodes.jsonl"
        path.write_bytes(
            b"".join(write_trace_lines(run))
            if run
            else b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        )
        return path

    return write


def rollouts_of(run: Run) -> list[Rollout]:
    return list(Rollout.objects.filter(run=run).select_related("payload").order_by("pk"))
