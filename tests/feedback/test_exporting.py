"""Ratings of a run are exported completely: every rating, in the usual columns, under a name or a
pseudonym.
"""

import io
import json
import uuid
from datetime import timedelta

import pytest
from datasets import load_dataset
from django.core.management import CommandError, call_command
from trl import is_conversational

from apps.accounts.models import Project
from apps.accounts.redacting import Redactor
from apps.feedback.exporting.rows import ROWS_AT_ONCE, RowSelection, export_rows
from apps.feedback.exporting.schemas import COLUMNS, KINDS
from apps.feedback.models import Demonstration, Item, Preference, Rating, Thumb
from apps.feedback.ratings.stars import Stars, give
from apps.feedback.rewrite_lessons import keep_rewrite
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.tasksets.models import Picture, Task
from tests.tasksets.test_messages import png


@pytest.fixture
def run(db, kept_run):
    kept_run.put_back()
    return Run.objects.get()


@pytest.fixture
def raters(run):
    users = {
        rating.rater.username: rating.rater for rating in Rating.objects.select_related("rater")
    }
    return users["bob"], users["simulated"]


def exported(run, kind: str, **options: object) -> list[dict]:
    return list(export_rows(kind, RowSelection(run, **options)))


def say(run, rater, form: str, answer: dict, members: list[Rollout], **fields: object) -> Rating:
    """Create a rating as the rating page does."""
    ids = [rollout.pk for rollout in members]
    item = Item.objects.create(run=run, group=members[0].group, form=form, members=sorted(ids))
    return Rating.objects.create(
        item=item,
        rollout=members[0] if len(members) == 1 else None,
        run=run,
        rater=rater,
        form=form,
        answer=answer,
        shown=ids,
        client_uuid=uuid.uuid4(),
        **fields,
    )


def of_one_group(run) -> list[Rollout]:
    group = Group.objects.filter(run=run, state="admitted").order_by("pk").last()
    return list(group.rollouts.select_related("group").order_by("sample_index"))


def test_every_vote_is_exported_once_and_replaced_votes_are_marked(run, raters):
    first = Rating.objects.filter(rater=raters[0]).order_by("pk").first()
    again = give(raters[0], Stars(first.rollout_id, 6 - first.stars, uuid.uuid4()))
    rows = {row["rating"]: row for row in exported(run, "votes")}
    assert len(rows) == Rating.objects.filter(run=run).count() > 20
    assert (
        rows[first.pk]["is_current"],
        rows[again.pk]["is_current"],
        rows[again.pk]["replaces"],
    ) == (False, True, first.pk)
    assert rows[again.pk]["values"] == [(again.stars - 1) / 4]
    assert json.loads(rows[again.pk]["answer"]) == {"stars": again.stars}
    assert rows[again.pk]["texts"] == [first.rollout.text]


def test_personal_data_is_replaced_in_every_text_and_answers_stay_json(run, raters):
    [one, *_] = of_one_group(run)
    Rollout.objects.filter(pk=one.pk).update(text="Ask ada@mail.example, or +49 30 1234567.")
    said = say(
        run,
        raters[0],
        "rewrite",
        {"text": 'Ask\nada@mail.example "now"'},
        [one],
        critique="4111 1111 1111 1111 is my card",
    )
    redactor = Redactor()
    row = next(row for row in exported(run, "votes", redactor=redactor) if row["rating"] == said.pk)
    assert (
        row["texts"] == ["Ask [e-mail address], or [telephone number]."]
        and row["critique"] == "[card number] is my card"
    )
    assert json.loads(row["answer"]) == {"text": 'Ask\n[e-mail address] "now"'}
    assert (
        redactor.counts["card numbers"] == 1
        and row["at"] == said.at
        and list(row) == list(COLUMNS["votes"])
    )
    [group] = [
        row for row in exported(run, "groups", redactor=redactor) if one.pk in row["rollouts"]
    ]
    assert (
        "[telephone number]" in group["completions"][group["rollouts"].index(one.pk)][0]["content"]
    )


def test_command_prints_how_much_personal_data_it_replaced(run, raters, tmp_path):
    [one, *_] = of_one_group(run)
    say(run, raters[0], "stars", {"stars": 3}, [one], critique="write to ada@mail.example")
    out = io.StringIO()
    path = tmp_path / "votes.parquet"
    call_command(
        "export",
        "votes",
        run.slug,
        "--redact",
        "--format",
        "parquet",
        "--out",
        str(path),
        stdout=out,
    )
    assert "redacted: 1 e-mail addresses" in out.getvalue() and b"ada@mail" not in path.read_bytes()


def test_comparison_is_exported_as_a_pair_with_its_margin(run, raters):
    one, other, *_ = of_one_group(run)
    Rating.objects.all().update(is_current=False)
    say(run, raters[0], "pairwise", {"preference": 3}, [one, other])
    [pair] = exported(run, "pairs")
    assert [message["content"] for message in (*pair["chosen"], *pair["rejected"])] == [
        other.text,
        one.text,
    ]
    assert (pair["margin"], pair["author"], pair["source"]) == (
        1.0,
        "bob",
        "pairwise of run tone-7",
    )


def test_ranking_is_exported_as_all_its_pairs_without_ties(run, raters):
    four = of_one_group(run)
    for n, rollout in enumerate(four):
        Rollout.objects.filter(pk=rollout.pk).update(text=f"reply {n}")
    Rating.objects.all().update(is_current=False)
    say(
        run,
        raters[0],
        "ranking",
        {"ranks": {str(r.pk): rank for r, rank in zip(four, (1, 2, 2, 3), strict=True)}},
        four,
    )
    found = {
        (pair["chosen"][0]["content"], pair["rejected"][0]["content"])
        for pair in exported(run, "pairs")
    }
    assert found == {
        ("reply 0", "reply 1"),
        ("reply 0", "reply 2"),
        ("reply 0", "reply 3"),
        ("reply 1", "reply 3"),
        ("reply 2", "reply 3"),
    }


def test_different_stars_become_a_pair_only_within_one_person(run, raters):
    one, other, *_ = of_one_group(run)
    Rating.objects.all().delete()
    give(raters[0], Stars(one.pk, 5, uuid.uuid4()))
    give(raters[1], Stars(other.pk, 1, uuid.uuid4()))
    assert exported(run, "pairs") == []
    give(raters[0], Stars(other.pk, 2, uuid.uuid4()))
    [pair] = exported(run, "pairs")
    assert (pair["chosen"][0]["content"], pair["margin"]) == (one.text, 0.75)


def test_rewrite_is_exported_as_a_demonstration_and_a_pair(run, raters):
    one = of_one_group(run)[0]
    keep_rewrite(raters[0], run, one.group, one.pk, "As it should be.")
    [shown] = exported(run, "demonstrations")
    assert shown["messages"][-1] == {"role": "assistant", "content": "As it should be."}
    assert shown["messages"][:-1] == one.group.task.prompt
    assert any(pair["source"] == f"rewrite of rollout {one.pk}" for pair in exported(run, "pairs"))


def test_simulated_ratings_are_marked_in_pairs_and_demonstrations(run, raters):
    one, other, *_ = of_one_group(run)
    Rating.objects.all().update(is_current=False)
    for rater in raters:
        keep_rewrite(rater, run, one.group, one.pk, f"As {rater.username} would have it.")
        say(run, rater, "pairwise", {"preference": 3}, [one, other])
    for kind in ("pairs", "demonstrations"):
        said = {(row["author"], row["is_simulated"]) for row in exported(run, kind)}
        assert said == {("bob", False), ("simulated", True)}
    Demonstration.objects.update(author=None)
    assert {(row["author"], row["is_simulated"]) for row in exported(run, "demonstrations")} == {
        (None, None)
    }


def test_exported_groups_contain_rewards_and_advantages_of_each_reply(run):
    rows = exported(run, "groups")
    assert len(rows) == Group.objects.filter(run=run, state="admitted").count()
    for row in rows:
        assert (
            len(row["completions"])
            == len(row["rewards"])
            == len(row["advantages"])
            == len(row["people"])
            == 4
        )
    assert {row["step"] for row in rows} >= {1, 2, 3}


def test_exported_groups_use_combined_rewards_and_omit_late_and_flagged_ones(run, raters):
    one, other, third, fourth = of_one_group(run)
    Reward.objects.filter(rollout__in=(one, other, third, fourth), source="human").delete()
    for rollout, value in ((one, 1.0), (one, 0.5), (other, 1.0), (other, 0.5), (third, 1.0)):
        by = raters[Reward.objects.filter(rollout=rollout, source="human").count()]
        Reward.objects.create(rollout=rollout, source="human", scorer="stars", value=value, by=by)
    together = {"source": "human", "scorer": "people", "uncertainty": 0.25}
    Reward.objects.create(rollout=one, value=0.6, **together)
    Reward.objects.create(
        rollout=third,
        source="human",
        scorer="flag",
        value=None,
        reason="flagged as broken",
        by=raters[1],
    )
    Reward.objects.create(
        rollout=fourth,
        source="human",
        scorer="stars",
        value=1.0,
        by=raters[0],
        details={"is_late": True},
    )
    row = next(row for row in exported(run, "groups") if row["group"] == one.group_id)
    assert row["people"] == [0.6, 1.0, 1.0, None]
    assert row["simulated"] == [0.5, 0.5, None, None]
    assert row["uncertainties"] == [0.25, None, None, None]


def test_anchor_is_not_exported_as_a_completion(run):
    one, *_ = of_one_group(run)
    Rollout.objects.create(
        run=run,
        group=one.group,
        origin="synthetic",
        sample_index=0,
        state="finished",
        text="of the base",
    )
    row = next(row for row in exported(run, "groups") if row["group"] == one.group_id)
    assert len(row["completions"]) == 4 and "of the base" not in str(row["completions"])


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ({"marks": {"0": 1, "1": -1, "2": 0}}, [True, False, True]),
        ({"first_error": 1, "of": 3}, [True, False, False]),
        ({"first_error": None, "of": 3}, [True, True, True]),
    ],
)
def test_turn_marks_are_exported_as_step_labels(run, raters, answer, labels):
    rollout = of_one_group(run)[0]
    spans = [("one", 0), ("two", 8), ("three", 13)]
    turns = [
        {"role": "assistant", "start": start, "end": start + len(said), "first": n, "tokens": 1}
        for n, (said, start) in enumerate(spans)
    ]
    turns.insert(1, {"role": "user", "start": 3, "end": 8, "first": 1, "tokens": 0})
    Rollout.objects.filter(pk=rollout.pk).update(text="one-and-two--three", turns=turns)
    rollout.refresh_from_db()
    say(run, raters[0], "turns", answer, [rollout])
    [row] = exported(run, "turn_labels")
    assert (row["completions"], row["labels"]) == (["one", "two", "three"], labels)


def test_export_can_be_filtered_by_form_and_time(run, raters):
    one, other, *_ = of_one_group(run)
    say(run, raters[0], "pairwise", {"preference": -2}, [one, other])
    assert {row["form"] for row in exported(run, "votes", form="pairwise")} == {"pairwise"}
    newest = Rating.objects.order_by("-at").first().at
    assert exported(run, "votes", since=newest + timedelta(seconds=1)) == []
    assert len(exported(run, "votes", since=newest)) >= 1


def test_pseudonyms_are_stable_and_reveal_no_name(run):
    plain = exported(run, "votes")
    masked = exported(run, "votes", pseudonyms=True)
    names = {(row["rater"], other["rater"]) for row, other in zip(plain, masked, strict=True)}
    assert len(names) == len({name for name, _ in names}) == len({mask for _, mask in names}) == 2
    assert not {"bob", "simulated"} & {mask for _, mask in names}


@pytest.mark.parametrize("kind", KINDS)
def test_parquet_and_json_lines_contain_the_same_rows(run, raters, kind, tmp_path):
    one, other, *_ = of_one_group(run)
    keep_rewrite(raters[0], run, one.group, one.pk, "As it should be.")
    say(run, raters[0], "turns", {"marks": {"0": 1}}, [other])
    for form in ("jsonl", "parquet"):
        call_command(
            "export",
            kind,
            "tone-7",
            "--format",
            form,
            "--out",
            str(tmp_path / f"rows.{form}"),
            stdout=io.StringIO(),
        )
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    rows = load_dataset(
        "parquet",
        data_files=str(tmp_path / "rows.parquet"),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert len(lines) == len(rows) > 0
    assert list(rows.column_names) == list(COLUMNS[kind])
    times = {"at"}
    for line, row in zip(lines, rows, strict=True):
        assert {k: v for k, v in line.items() if k not in times} == {
            k: v for k, v in row.items() if k not in times
        }


@pytest.mark.parametrize("kind", ["groups", "pairs", "demonstrations"])
def test_trl_recognizes_the_rows_as_conversations(run, raters, kind):
    one = of_one_group(run)[0]
    keep_rewrite(raters[0], run, one.group, one.pk, "As it should be.")
    assert all(is_conversational(row) for row in exported(run, kind))


def test_exported_pairs_are_the_same_after_import(run, raters, tmp_path):
    four = of_one_group(run)
    for n, rollout in enumerate(four):
        Rollout.objects.filter(pk=rollout.pk).update(text=f"reply {n}")
    Rating.objects.filter(rollout__in=four).update(is_current=False)
    say(
        run,
        raters[0],
        "ranking",
        {"ranks": {str(rollout.pk): rank for rank, rollout in enumerate(four, start=1)}},
        four,
    )
    path = tmp_path / "pairs.jsonl"
    call_command("export", "pairs", "tone-7", "--out", str(path), stdout=io.StringIO())
    pairs = [json.loads(line) for line in path.read_text().splitlines()]
    assert (
        len(pairs) >= 6
    )  # those of the ranking; of how many other groups one person's stars differ is chance
    out = io.StringIO()
    call_command("preferences", "import", str(path), "--taskset", "tone", stdout=out)
    assert f"{len(pairs)} preferences stored, 0 already existed" in out.getvalue()
    kept = Preference.objects.order_by("pk").values_list(
        "chosen", "rejected", "margin", "author__username", "task__index"
    )
    said = [
        (
            p["chosen"][0]["content"],
            p["rejected"][0]["content"],
            p["margin"],
            p["author"],
            p["task"],
        )
        for p in pairs
    ]
    assert list(kept) == said


def test_exported_demonstrations_are_the_same_after_import(run, raters, tmp_path):
    one = of_one_group(run)[0]
    keep_rewrite(raters[0], run, one.group, one.pk, "As it should be.")
    call_command(
        "export",
        "demonstrations",
        "tone-7",
        "--format",
        "parquet",
        "--out",
        str(tmp_path / "d.parquet"),
        stdout=io.StringIO(),
    )
    before = Demonstration.objects.get()
    Demonstration.objects.all().delete()
    call_command(
        "demonstrations",
        "import",
        str(tmp_path / "d.parquet"),
        "--taskset",
        "tone",
        "--author",
        "bob",
        stdout=io.StringIO(),
    )
    after = Demonstration.objects.get()
    assert (after.prompt, after.answer, after.task) == (before.prompt, before.answer, before.task)


@pytest.mark.parametrize(
    ("kind", "command", "model"),
    [
        ("pairs", "preferences", Preference),
        ("demonstrations", "demonstrations", Demonstration),
        ("turn_labels", "thumbs", Thumb),
        ("votes", "thumbs", Thumb),
        ("votes", "demonstrations", Demonstration),
    ],
)
def test_exported_lessons_can_be_imported_into_another_project(
    run, raters, tmp_path, kind, command, model
):
    one, two, *_ = of_one_group(run)
    keep_rewrite(raters[0], run, one.group, one.pk, "As it should be.")
    say(run, raters[0], "rewrite", {"text": "As it should be."}, [one])
    say(run, raters[0], "turns", {"marks": {"0": 1}}, [one])
    say(run, raters[0], "thumbs", {"up": False}, [two])
    other = Project.objects.create(slug="other", title="Other")
    path = tmp_path / f"{kind}.jsonl"
    call_command("export", kind, "tone-7", "--out", str(path), stdout=io.StringIO())
    out = io.StringIO()
    aside = str(tmp_path / "aside.jsonl")
    call_command(
        command, "import", str(path), "--project", "other", "--set-aside", aside, stdout=out
    )
    lessons = model.objects.filter(project=other)
    assert f"layout: rftweb export of {kind.replace('_', ' ')}" in out.getvalue()
    assert lessons.filter(author__username="other/bob").exists()
    assert not lessons.filter(author__imported_into=None).exists()
    assert (
        not lessons.filter(author__is_simulated=True)
        .exclude(author__username="other/simulated")
        .exists()
    )


def test_existing_file_is_not_overwritten(run, tmp_path):
    (tmp_path / "votes.jsonl").write_text("mine")
    with pytest.raises(CommandError, match="already exists"):
        call_command("export", "votes", "tone-7", "--out", str(tmp_path / "votes.jsonl"))
    assert (tmp_path / "votes.jsonl").read_text() == "mine"


def test_queries_do_not_grow_with_the_rows_of_a_batch(run, raters, django_assert_max_num_queries):
    assert Rating.objects.filter(run=run).count() < ROWS_AT_ONCE
    with django_assert_max_num_queries(4):
        exported(run, "votes")
    with django_assert_max_num_queries(10):
        exported(run, "groups")
    with django_assert_max_num_queries(8):
        exported(run, "pairs")


def test_turn_labels_find_the_task_of_a_prompt_with_several_messages(run, raters, tmp_path):
    one = of_one_group(run)[0]
    prompt = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}]
    Task.objects.filter(pk=one.group.task_id).update(prompt=prompt)
    say(run, raters[0], "turns", {"marks": {"0": 1}}, [one])
    path = tmp_path / "turns.jsonl"
    call_command("export", "turn_labels", "tone-7", "--out", str(path), stdout=io.StringIO())
    assert json.loads(path.read_text())["prompt"] == "Be kind.\n\nHello?"
    call_command("thumbs", "import", str(path), "--taskset", "tone", stdout=io.StringIO())
    thumb = Thumb.objects.get()
    assert (thumb.prompt, thumb.task_id) == (prompt, one.group.task_id)


def with_pictures(run) -> list[Task]:
    """Show another picture in each of two tasks of the run, with the same words."""
    admitted = Group.objects.filter(run=run, state="admitted")
    tasks = list(Task.objects.filter(pk__in=admitted.values("task")).order_by("index")[:2])
    for task, colour in zip(tasks, ("red", "blue"), strict=True):
        picture = Picture.take(run.project, png(colour=colour))
        part = {"type": "image", "picture": picture.sha256, "width": 8, "height": 8}
        content = [part, {"type": "text", "text": "Which?"}]
        Task.objects.filter(pk=task.pk).update(prompt=[{"role": "user", "content": content}])
    return tasks


def test_exported_prompts_with_pictures_find_their_tasks_by_number(run, raters, tmp_path):
    tasks = with_pictures(run)
    for task in tasks:
        group = Group.objects.filter(run=run, task=task, state="admitted").first()
        keep_rewrite(raters[0], run, group, group.rollouts.first().pk, "As it should be.")
    path = tmp_path / "d.jsonl"
    call_command("export", "demonstrations", "tone-7", "--out", str(path), stdout=io.StringIO())
    Preference.objects.all().delete()
    Demonstration.objects.all().delete()
    with pytest.raises(CommandError, match=r"\[picture 1\] in place of a picture.*'tone'"):
        call_command("demonstrations", "import", str(path))
    call_command("demonstrations", "import", str(path), "--taskset", "tone", stdout=io.StringIO())
    kept = Demonstration.objects.order_by("task__index")
    assert [lesson.task for lesson in kept] == tasks
    assert all(lesson.prompt == lesson.task.prompt for lesson in kept)
