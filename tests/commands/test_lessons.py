"""`manage.py demonstrations`, `preferences`, `thumbs` and `policy average`, and the example
configurations that use them.
"""

import io
import json
import uuid
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.feedback.models import Demonstration, Preference, Thumb
from apps.feedback.ratings.stars import Stars, give
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.parsing import from_yaml
from apps.tasksets.importing import generate
from tests.rollouts.mixed import taskset_of
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.django_db
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out)
    return out.getvalue()


def refusal(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    def write(*lines: object) -> Path:
        path = tmp_path / "lessons.jsonl"
        path.write_text(
            "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        )
        return path

    return write


def test_demonstrations_are_imported_once_and_listed(project, taskset, file):
    path = file({"prompt": "54321", "answer": "12345"})
    assert "1 demonstrations stored, 0 already existed" in said(
        "demonstrations", "import", path, "--taskset", "sort"
    )
    assert "0 demonstrations stored, 1 already existed" in said(
        "demonstrations", "import", path, "--taskset", "sort"
    )
    assert "lessons.jsonl" in said("demonstrations", "list")


def test_run_option_determines_the_taskset(run, file):
    said("demonstrations", "import", file({"task": 0, "answer": "12345"}), "--run", run.slug)
    assert (Demonstration.objects.get().run, Demonstration.objects.get().task.index) == (run, 0)


def test_run_over_several_tasksets_requires_the_taskset_of_the_lessons(
    new_run, project, taskset, file
):
    taskset_of(project, "large", 7)
    run = new_run(taskset=None, tasksets={"sort": 1, "large": 2})
    path = file({"task": 6, "answer": "6"})
    assert f"{run.slug} samples from large + sort; name the one" in refusal(
        "demonstrations", "import", path, "--run", run.slug
    )
    said("demonstrations", "import", path, "--run", run.slug, "--taskset", "large")
    assert Demonstration.objects.get().task == run.tasks.get(index=6)


def test_bad_lines_are_listed_or_set_aside(project, file, tmp_path):
    path = file({"prompt": "a", "chosen": "b", "rejected": "c"}, "oops")
    message = refusal("preferences", "import", path)
    assert "line 2" in message and "--set-aside" in message and not Preference.objects.exists()
    aside = tmp_path / "bad.jsonl"
    assert "1 lines set aside" in said("preferences", "import", path, "--set-aside", aside)
    assert aside.read_text() == "oops\n"
    assert "already exists" in refusal("preferences", "import", path, "--set-aside", aside)
    nowhere = tmp_path / "none" / "bad.jsonl"
    assert "--set-aside: " in refusal("preferences", "import", path, "--set-aside", nowhere)


def test_preferences_from_ratings_of_a_run_are_stored_and_counted(run, finish, bob):
    [group] = finish(run, ["good", "poor"])
    for rollout, stars in zip(group.rollouts.order_by("sample_index"), (5, 1), strict=True):
        give(bob, Stars(rollout.pk, stars, uuid.uuid4()))
    finish(run, ["alone", "other"])
    give(bob, Stars(run.rollouts.get(text="alone").pk, 3, uuid.uuid4()))
    words = said("preferences", "rated", run.slug)
    assert (
        "1 preferences stored, 0 already existed" in words
        and "taken from 2 ratings, 0 of them late" in words
    )
    assert (
        "not taken: 1 ratings, their rater put no other answer of the group above or below" in words
    )
    assert "0 preferences stored, 1 already existed" in said("preferences", "rated", run.slug)


def test_thumbs_are_imported_with_their_author(project, bob, file):
    said(
        "thumbs",
        "import",
        file({"prompt": "a", "completion": "b", "label": False}),
        "--author",
        "bob",
    )
    assert (Thumb.objects.get().author, Thumb.objects.get().is_up) == (bob, False)


def test_unknown_values_are_reported(project, taskset, file, tmp_path):
    path = file({"prompt": "a", "answer": "b"})
    assert "there are: sort" in refusal("demonstrations", "import", path, "--taskset", "sorts")
    assert "no member of project 'lab' is called 'carol'" in refusal(
        "demonstrations", "import", path, "--author", "carol"
    )
    assert "OURS one of prompt" in refusal("demonstrations", "import", path, "--column", "reply=b")
    assert "the file does not exist" in refusal(
        "demonstrations", "import", tmp_path / "nothing.jsonl"
    )


@pytest.mark.nightly
def test_two_policies_are_averaged_into_a_third(project, tmp_path, settings):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    for name, seed in (("long", 0), ("short", 1)):
        build_tiny(tmp_path / name, seed=seed)
        said("policy", "add", tmp_path / name, "--slug", name)
    assert "policy merged" in said("policy", "average", "long", "short", "--slug", "merged")
    assert Policy.objects.get(slug="merged").source == "0.5 × long + 0.5 × short"
    assert "already" in refusal("policy", "average", "long", "short", "--slug", "merged")
    assert "no policy 'nothing'" in refusal(
        "policy", "average", "long", "nothing", "--slug", "other"
    )


def test_a_runs_weight_version_can_be_averaged(run, tmp_path, settings):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    build_tiny(tmp_path / "base")
    run.weight_versions.update(folder=str(tmp_path / "base"))
    assert "policy copy" in said(
        "policy", "average", f"{run.slug}@0", f"{run.slug}@0", "--slug", "copy"
    )
    assert "keeps versions 0" in refusal(
        "policy", "average", f"{run.slug}@7", f"{run.slug}@0", "--slug", "other"
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_example_configuration_creates_a_run(path, project, policy):
    plan = from_yaml(path.read_text())
    Policy.objects.filter(pk=policy.pk).update(slug=plan.policy)
    generate(project, plan.taskset, plan.taskset, 40, 0)
    said("runs", "create", path, "--start")
    run = Run.objects.get(slug=path.stem.replace(".", "-"))  # a slug has no dots
    assert (run.state, run.planned_steps, run.settings) == (Run.State.RUNNING, plan.steps, plan)


@pytest.mark.parametrize("rating", ["nan", "inf"])
def test_lowest_rating_that_is_no_number_is_refused(project, tmp_path, rating):
    path = tmp_path / "rated.jsonl"
    path.write_text('{"prompt": "Hi", "response": "Go away.", "rating": 1}\n')
    refused = refusal("demonstrations", "import", path, "--min-rating", rating)
    assert refused == f"--min-rating: the lowest rating must be a number, not {rating}"
    assert not Demonstration.objects.exists()
