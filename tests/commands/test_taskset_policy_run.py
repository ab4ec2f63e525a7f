"""`manage.py taskset`, `policy` and `runs`: what they do, and that every refusal shows the field
and valid values.
"""

import io
import json
import sys
from types import SimpleNamespace

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.models import Project
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.tasksets.models import Taskset
from apps.tasksets.pages import rendering
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.django_db


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out)
    return out.getvalue()


def refusal(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.fixture
def plan_file(tmp_path, policy, taskset):
    """Write a run configuration; keywords replace its fields."""

    def write(**changes: object):
        plan = {
            "policy": "tiny",
            "taskset": "sort",
            "steps": 3,
            "rewards": [{"scorer": "sort"}],
        } | changes
        path = tmp_path / "practice.yaml"
        path.write_text(yaml.safe_dump(plan))
        return path

    return write


def test_taskset_is_generated_and_listed_and_its_slug_is_unique(project):
    assert "40 tasks" in said("taskset", "generate", "tone", "--size", 40, "--seed", 7)
    assert Taskset.objects.get(slug="tone").tasks.count() == 40
    assert "tone" in said("taskset", "list")
    assert "--slug" in refusal("taskset", "generate", "tone", "--size", 40)


def test_too_many_tasks_are_refused_with_the_limit(project):
    assert "from 1 to 4608" in refusal("taskset", "generate", "tone", "--size", 4609)


def test_pages_are_rendered_where_possible_and_refused_elsewhere(project, monkeypatch):
    assert "3 tasks" in said("taskset", "generate", "pages", "--size", 3)
    assert all(
        task.prompt[0]["content"][0]["picture"]
        for task in Taskset.objects.get(slug="pages").tasks.all()
    )
    monkeypatch.setitem(sys.modules, "weasyprint.text.fonts", None)
    rendering._fonts.cache_clear()
    assert "cannot be rendered on this machine" in refusal(
        "taskset", "generate", "pages", "--slug", "more"
    )


def test_bad_lines_of_an_import_are_listed_with_their_numbers(project, tmp_path):
    (tmp_path / "sums.jsonl").write_text('{"prompt": "1+1", "answer": 2}\noops\n')
    message = refusal("taskset", "import", tmp_path / "sums.jsonl")
    assert "line 2" in message and "--quarantine" in message
    assert "1 tasks, 1 lines set aside" in said(
        "taskset", "import", tmp_path / "sums.jsonl", "--quarantine"
    )


def test_columns_can_be_mapped(project, tmp_path):
    (tmp_path / "sums.jsonl").write_text('{"question": "1+1", "sum": 2}\n')
    said("taskset", "import", tmp_path / "sums.jsonl", "--prompt", "question", "--answer", "sum")
    task = Taskset.objects.get(slug="sums").tasks.get()
    assert (task.question, task.answer) == ("1+1", {"value": 2})


def test_missing_project_is_reported_if_there_are_none(db):
    assert "none yet" in refusal("taskset", "generate", "sort")


def test_only_unarchived_project_is_the_default(project):
    other = Project.objects.create(slug="old", title="Old")
    assert "name one; there are: " in refusal("taskset", "generate", "sort", "--size", 4)
    Project.objects.filter(pk=other.pk).update(archived_at=timezone.now())
    said("taskset", "generate", "sort", "--size", 4)
    assert Taskset.objects.get(slug="sort").project == project


def test_a_model_folder_is_added_as_a_sealed_copy(project, tmp_path, settings):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    build_tiny(tmp_path / "mine")
    assert "17,184 parameters" in said("policy", "add", tmp_path / "mine", "--slug", "mine")
    policy = Policy.objects.get(slug="mine")
    assert policy.folder.startswith(str(tmp_path / "weights")) and policy.context_tokens == 128
    assert "already" in refusal("policy", "add", tmp_path / "mine", "--slug", "mine")


def test_a_model_folder_with_a_pickle_is_refused_by_name(project, tmp_path, settings, capfd):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    build_tiny(tmp_path / "mine")
    (tmp_path / "mine" / "pytorch_model.bin").write_bytes(b"x")
    assert "was not added" in refusal("policy", "add", tmp_path / "mine", "--slug", "mine")
    assert "pytorch_model.bin" in capfd.readouterr().err
    assert not Policy.objects.exists()


def test_a_run_is_created_started_paused_resumed_and_stopped(plan_file):
    assert "3 steps planned" in said("runs", "create", plan_file())
    states = []
    for verb in ("start", "pause", "resume", "stop"):
        said("runs", verb, "practice")
        states.append(Run.objects.get(slug="practice").state)
    assert states == ["running", "paused", "running", "stopped"]


def test_action_not_allowed_in_the_current_state_is_refused(plan_file):
    said("runs", "create", plan_file())
    assert "it must be running" in refusal("runs", "pause", "practice")


@pytest.mark.parametrize(
    ("changes", "field", "hint"),
    [
        ({"step": 5}, "step", "did you mean `steps`"),
        ({"optimizer": {"learning_rat": 1}}, "optimizer.learning_rat", "learning_rate"),
        ({"policy": "huge"}, "policy", "no policy 'huge'"),
        ({"rewards": [{"scorer": "sotr"}]}, "rewards.0.scorer", "did you mean 'sort'"),
        ({"steps": 0}, "steps", "plan 1 step or more"),
    ],
)
def test_invalid_configuration_is_refused_by_field_and_creates_no_run(
    plan_file, changes, field, hint
):
    message = refusal("runs", "create", plan_file(**changes))
    assert f"{field}: " in message and hint in message
    assert not Run.objects.exists()


def test_show_prints_the_metrics_as_json(plan_file):
    said("runs", "create", plan_file())
    facts = json.loads(said("runs", "show", "practice", "--json"))
    assert (facts["state"], facts["step"], facts["planned_steps"]) == ("created", 0, 3)


def test_following_a_run_that_has_ended_returns_at_once(plan_file):
    said("runs", "create", plan_file())
    said("runs", "stop", "practice")
    assert "stopped by hand" in said("runs", "follow", "practice")


def test_follow_shows_why_a_run_is_paused(run, monkeypatch):
    acts = iter([lambda: run.pause(reason="the engine died 3 times"), run.resume, run.stop])
    monkeypatch.setattr(
        "rftweb.management.commands.runs.time", SimpleNamespace(sleep=lambda _: next(acts)())
    )
    words = [
        line.removeprefix(f"run {run.slug} is ")
        for line in said("runs", "follow", run.slug).splitlines()
    ]
    assert words == ["paused: the engine died 3 times", "running", "stopped: stopped by hand"]


def test_unknown_run_is_refused_with_the_existing_ones(plan_file):
    said("runs", "create", plan_file())
    assert "practice" in refusal("runs", "show", "practise")


def test_name_that_pages_cannot_show_is_refused_before_anything_is_stored(project, plan_file):
    file = plan_file()
    tasks = file.with_name("数据.jsonl")
    tasks.write_text('{"prompt": "2+2?", "answer": "4"}\n')
    assert "--slug and --title: '' is not a valid slug" in refusal("taskset", "import", tasks)
    long = refusal("taskset", "import", tasks, "--slug", "a", "--title", "t" * 201)
    assert "the title has more than 200" in long
    assert "--slug: 'a b' is" in refusal("taskset", "generate", "sort", "--slug", "a b")
    stored = Taskset.objects.get()
    assert "'a/b' is" in refusal("taskset", "join", "a/b", stored.slug)
    assert "--slug: 'my run'" in refusal("runs", "create", file, "--slug", "my run")
    assert not Run.objects.exists()
