"""The examples in examples/plugins, installed with pip: web and workers use the plugins of a
separate package like built-in parts.
"""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.urls import reverse

from apps.feedback.models import Slot
from apps.plugins.registry import REGISTRY
from apps.rewards.models import Reward
from tests.feedback.asking import ask
from tests.web_process import _url_of
from tests.wheels import build_wheel

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, django
django.setup()
from apps.accounts.models import Project
from apps.dashboard.pipelines import catalogue
from apps.dashboard.run_form import list_project_choices
from apps.pipelines.applying import apply
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.operators import Sample
from apps.plugins.registry import REGISTRY
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scoring import Question, require_known_scorers
from apps.runs.parsing import parse_config
from workers.grading import Grader

nobody = Project(pk=0)
plan = parse_config({
    "policy": "p", "taskset": "t", "steps": 1, "group_size": 2, "groups_per_step": 1,
    "rewards": [{"scorer": "keywords", "options": {"needed": 0.5}}],
    "pipeline": [{"operator": "without_links", "options": {"max_links": 1}}],
    "people": {"form": "number_scale", "form_options": {"points": 3}, "per_group": 1},
})
require_known_scorers(plan, nobody)
task = TaskView(answer={"keywords": ["refund", "week"]})
options = plan.rewards[0].options
asked = Question(1, "keywords", (1,), (RolloutView("a refund"),), task, options)
grader = Grader(children=1)
[answer] = grader.grade([asked])
grader.stop()
samples = [Sample(n, 1, text, 1.0) for n, text in enumerate(["fine", "www.a www.b"])]
print(json.dumps({
    "plugins": sorted((one.title, one.origin, one.state) for one in REGISTRY.plugins()),
    "pipeline": find_pipeline_problems(plan, nobody),
    "value": answer.verdicts[0].value,
    "kept": [one.rollout for one in apply(plan.pipeline, "groups", samples).samples],
    "in the form": "keywords" in {name for name, _, _ in list_project_choices(nobody)["rewards"]},
    "in the catalogue": "without_links" in {one.name for _, few in catalogue() for one, _ in few},
}))
"""
PACKAGE = "the package rftweb-examples 1.0.0"


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory):
    """Install the examples into a folder with pip, as their author would."""
    wheel = build_wheel(tmp_path_factory.mktemp("examples"), ROOT / "examples" / "plugins")
    folder = tmp_path_factory.mktemp("site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", folder, wheel], check=True)
    return folder


@pytest.fixture
def installed(site_packages, monkeypatch):
    """Load the examples as plugins of this process."""
    monkeypatch.syspath_prepend(site_packages)
    REGISTRY.use(None)
    yield
    monkeypatch.undo()
    REGISTRY.use(settings.PLUGINS)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_run_in_another_process_uses_the_installed_examples(site_packages):
    environment = {
        **os.environ,
        "DATABASE_URL": _url_of(connection.settings_dict),
        "DJANGO_SETTINGS_MODULE": "rftweb.settings",
        "PYTHONPATH": str(site_packages),
        "RFTWEB_VAR": str(settings.VAR),
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "plugins": [
            ["operator without_links", PACKAGE, "ready"],
            ["rating form number_scale", PACKAGE, "ready"],
            ["scorer keywords", PACKAGE, "ready"],
        ],
        "pipeline": {},
        "value": 1.0,
        "kept": [0],
        "in the form": True,
        "in the catalogue": True,
    }


@pytest.mark.django_db
def test_rating_in_the_installed_form_sets_the_reward(installed, client, bob, new_run, finish):
    people = {"per_group": 1, "deadline_s": 600, "form": "number_scale"}
    ask(new_run(people={**people, "form_options": {"points": 3}}), finish)
    client.force_login(bob)
    html = client.post(reverse("rate-next")).content.decode()
    assert "How good is this reply?" in html and html.count('name="point"') == 3
    script = client.get(reverse("rating-form-script", args=["number_scale"]))
    assert "export function createForm(article)" in script.content.decode()

    slot = Slot.objects.get(rater=bob, state="held")
    said = {
        "client_uuid": str(uuid.uuid4()),
        "fence": slot.fence,
        "version": 1,
        "form": "number_scale",
        "answer": {"point": 4},
        "critique": "",
    }
    address = reverse("rate-slot", args=[slot.pk])
    refused = client.post(address, json.dumps(said), content_type="application/json")
    assert refused.status_code == 422 and "from 1 to 3" in refused.content.decode()
    said |= {"answer": {"point": 2}, "client_uuid": str(uuid.uuid4())}
    taken = client.post(address, json.dumps(said), content_type="application/json")
    assert taken.status_code == 201, taken.content
    assert Reward.objects.get(source="human").value == 0.5
