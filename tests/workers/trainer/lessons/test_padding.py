"""Lessons are learned by policies whose tokenizer has no token for padding, as Llama 3's."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from apps.policies.folder import MANIFEST
from apps.policies.manifest import read_manifest, seal_folder
from workers.policies.tiny import build_tiny
from workers.trainer.lessons.host import LessonHost
from workers.trainer.lessons.rows import JudgedAnswer, Lesson, Pair, build_lesson_row
from workers.trainer.spec import Loss, Objective, TrainerSpec

LONG = build_lesson_row([5, 6, 7, 8], [7, 8, 9])
SHORT = build_lesson_row([5], [9])
PAIRS = [Pair(LONG, SHORT), Pair(SHORT, LONG)]
THUMBS = [JudgedAnswer(LONG, True), JudgedAnswer(SHORT, False)]


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    """Seal a tiny policy whose files name no token for padding."""
    root = tmp_path_factory.mktemp("policies")
    build_tiny(root / "padded")
    folder = root / "plain"
    shutil.copytree(root / "padded", folder)
    (folder / MANIFEST).unlink()
    for name, key in (("tokenizer_config.json", "pad_token"), ("config.json", "pad_token_id")):
        document = json.loads((folder / name).read_text())
        del document[key]
        (folder / name).write_text(json.dumps(document))
    seal_folder(folder, root / "sealed", 0, None, read_manifest(root / "padded").probe)
    assert AutoTokenizer.from_pretrained(root / "sealed").pad_token_id is None
    return root / "sealed"


@pytest.mark.parametrize(
    ("loss", "lessons"), [("dpo", PAIRS), ("kto", THUMBS), ("bradley_terry", PAIRS)]
)
def test_lessons_of_different_lengths_are_learned_without_a_padding_token(
    loss: str, lessons: list[Lesson], policy: Path, tmp_path: Path
):
    spec = TrainerSpec(
        policy=policy,
        output=tmp_path / "output",
        planned_steps=1,
        rows_per_step=2,
        objective=Objective(loss=Loss(loss)),
    )
    host = LessonHost(spec)
    host.start()

    report = host.update(lessons)

    host.stop()
    assert not report.skipped
    assert report.metrics["grad_norm"] > 0


def test_reward_model_finds_the_ends_of_texts_by_the_token_that_fills_them(policy, tmp_path):
    spec = TrainerSpec(
        policy=policy,
        output=tmp_path / "output",
        planned_steps=1,
        rows_per_step=2,
        objective=Objective(loss=Loss("bradley_terry")),
    )
    host = LessonHost(spec)
    host.start()
    padding = host.built.pad_id
    host.stop()

    model = AutoModelForSequenceClassification.from_pretrained(host.spec.policy)
    assert padding == model.config.pad_token_id is not None
