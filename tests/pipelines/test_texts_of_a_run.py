"""Realistic replies go through the whole pipeline of a run, and are exported by the command."""

import io
import json

from django.core.management import call_command

from apps.buffer.models import Experience
from apps.pipelines.models import CutRollout
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group

CLEANING = [{"operator": name} for name in ("refusal", "encoding", "duplicates")]


def refined(run, finish, texts: list[str]) -> dict[str, str]:
    """Finish one group with these replies, judge it, and return removed replies with reasons."""
    finish(run, texts)
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 1)
    verdicts = [
        AnsweredQuestion(question, [Verdict(float(place % 2), "test")])
        for place, question in enumerate(open_questions(claimed))
    ]
    record_verdicts(claimed, verdicts)
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    cut = CutRollout.objects.filter(run=run).select_related("rollout")
    return {one.rollout.text: one.reason for one in cut}


def test_ordinary_words_and_characters_that_resemble_faults_are_kept(new_run, finish):
    run = new_run(group_size=4, pipeline=CLEANING)
    texts = [
        "It is used as an aid in surgery.",
        "Well done \U0001fa77",
        "答案是四因为二加二等于四",
        "As an AI model, I cannot help.",
    ]
    assert list(refined(run, finish, texts)) == texts[3:]
    assert Experience.objects.filter(run=run).count() == 3


def test_replies_without_spaces_that_differ_by_a_full_stop_are_duplicates(new_run, finish):
    run = new_run(group_size=4, pipeline=CLEANING)
    texts = [
        "答案是四因为二加二等于四",
        "答案是四因为二加二等于四。",
        "完全不同的回答",
        "\ufffd\ufffd",
    ]
    cut = refined(run, finish, texts)
    assert set(cut) == {texts[1], texts[3]}
    assert "near-duplicate" in cut[texts[1]] and "broken" in cut[texts[3]]


def test_redacted_export_keeps_numbers_and_removes_telephone_numbers(new_run, finish, tmp_path):
    run = new_run(group_size=2)
    refined(run, finish, ["05 10 15 20 25", "Call 030 1234567"])
    path = tmp_path / "groups.jsonl"
    out = io.StringIO()
    call_command("export", "groups", run.slug, "--redact", "--out", str(path), stdout=out)
    [row] = [json.loads(line) for line in path.read_text().splitlines()]
    said = [one["content"] for [one] in row["completions"]]
    assert said == ["05 10 15 20 25", "Call [telephone number]"]
    assert "redacted: 1 telephone numbers" in out.getvalue()
