"""Advantages, losses, channels and other parts of plugins in use.

A plugin that fails loses only its own work, and the reason is reported.
"""

import io

import pytest
import torch
from django.core.management import call_command
from django.template import Context

from apps.alerts.delivering import check_channel_address, deliver
from apps.alerts.models import Channel, Delivery
from apps.dashboard.run_form import load_run_form
from apps.environments.environment_lookup import find_or_register, require_known_environment
from apps.feedback.forms import FORMS, BadAnswer
from apps.feedback.rater_model.learner import Learner, ValuedReply
from apps.feedback.rater_model.plugins import fitted_for
from apps.feedback.rater_model.reading import NUMBERS, ReplyFeatures
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.crediting import JudgedRollout, of_group
from apps.pipelines.deciding import Case, decide_groups
from apps.rewards.combining import Judgement
from apps.rollouts.models import Group, Rollout
from apps.runs.config import ConfigError
from apps.runs.people import RaterModel
from apps.tasksets.models import Task, Taskset
from rftweb.management.commands.plugin import TEMPLATES
from workers.trainer.loss_trial import random_tokens
from workers.trainer.objective import function
from workers.trainer.plugin_losses import LossFailed
from workers.trainer.spec import Loss


def template(kind: str) -> str:
    return (TEMPLATES / f"{kind}.txt").read_text()


def problems(plan, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refusal:
        plan(**changes)
    return refusal.value.problems


# -- advantages and losses


def with_advantage(**options: object) -> dict:
    return {"advantage": {"name": "plugin", "plugin": "middle", "options": options}}


def test_plugin_advantage_computes_the_advantages_of_a_group(install, plan):
    install(middle=template("advantage"))
    judged = [JudgedRollout(reward, {}) for reward in (0.0, 1.0, 0.5)]
    assert of_group(plan(algorithm=with_advantage()), judged) == [-0.5, 0.5, 0.0]
    assert of_group(plan(algorithm=with_advantage(smallest_spread=1)), judged) is None


def test_group_is_dropped_if_the_plugin_advantage_returns_none(install, plan):
    install(middle=template("advantage"))
    task = Task(prompt=[{"role": "user", "content": "Count"}])
    rollouts = [Rollout(pk=pk, text="one", first_version=0) for pk in (1, 2)]
    judgements = {pk: [Judgement("arithmetic", 1.0)] for pk in (1, 2)}
    group = Group(pk=1, run_id=1, task=task, draw_index=0)
    chosen = plan(rewards=[{"scorer": "arithmetic"}], algorithm=with_advantage(smallest_spread=1))
    [decision] = decide_groups(chosen, [Case(group, rollouts, judgements, 0)])
    assert decision.dropped == "middle: nothing can be learned from these rewards"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("1 / 0", "middle: ZeroDivisionError"),
        ("return [1.0]", "a list of 2 numbers"),
        ("return [0.0, float('nan')]", "not a finite number"),
    ],
)
def test_failing_plugin_advantage_raises_operator_failed(install, plan, body, why):
    install(middle=f'"""Fails."""\n\n\ndef advantages(rewards, options):\n    {body}\n')
    with pytest.raises(OperatorFailed, match=why):
        of_group(plan(algorithm=with_advantage()), [JudgedRollout(0.0, {}), JudgedRollout(1.0, {})])


def test_plan_is_refused_if_a_plugin_is_unknown_broken_or_has_wrong_options(install, plan):
    install(middle=template("advantage"), broken='"""Breaks."""\n1 / 0\ndef loss(a, b): ...\n')
    there_is_none = {"advantage": {"name": "plugin", "plugin": "midle"}}
    assert (
        "did you mean 'middle'?"
        in problems(plan, algorithm=there_is_none)["algorithm.advantage.plugin"]
    )
    wrong = problems(plan, algorithm=with_advantage(spread=1))
    assert "Extra inputs" in wrong["algorithm.advantage.options.spread"]
    refused = {"loss": {"name": "plugin", "plugin": "broken"}}
    assert "ZeroDivisionError" in problems(plan, algorithm=refused)["algorithm.loss.plugin"]
    assert "did you mean 'stars'?" in problems(plan, people={"form": "star"})["people.form"]


def test_trainer_minimizes_the_loss_of_a_plugin(install):
    install(bounded=template("loss"))
    loss = function(Loss("plugin", {"plugin": "bounded", "options": {"clip": 0.1}}))
    tokens = random_tokens()
    values = loss(tokens).values
    (gradient,) = torch.autograd.grad(values.sum(), tokens.policy)
    assert values.shape == tokens.mask.shape and gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("1 / 0", "the loss bounded: ZeroDivisionError"),
        ("return tokens.policy.sum()", "instead of a tensor"),
        ("return tokens.advantages", "does not depend on tokens.policy"),
    ],
)
def test_unusable_plugin_loss_is_reported(install, body, why):
    install(bounded=f'"""Fails."""\n\n\ndef loss(tokens, options):\n    {body}\n')
    loss = function(Loss("plugin", {"plugin": "bounded", "options": {}}))
    with pytest.raises(LossFailed, match=why):
        loss(random_tokens())


# -- people


def seen(*words: str) -> ReplyFeatures:
    return ReplyFeatures(frozenset(words), (0.0,) * len(NUMBERS))


def test_plugin_rater_model_predicts_and_ridge_replaces_it_if_it_fails(install):
    learner = Learner()
    for words, value in (("thanks", 1.0), ("no", 0.0)):
        learner.learn(ValuedReply(seen(words), value, 1))
    section = RaterModel(kind="plugin", plugin="nearest", options={"neighbours": 1})
    install(nearest=template("rater_model"))
    means, _ = fitted_for(section, learner).predict([seen("thanks"), seen("no")])
    assert list(means) == [1.0, 0.0]
    install(nearest='"""Fails."""\n\n\ndef fit(decisions, options):\n    raise KeyError("oh")\n')
    failed = fitted_for(RaterModel(kind="plugin", plugin="nearest"), learner)
    assert failed.coefficients()["plugin"]["failed"] == "KeyError: 'oh'"
    assert list(failed.predict([seen("no")])[0]) == list(learner.fit().predict([seen("no")])[0])


def test_missing_form_refuses_answers_and_gives_no_value(install, plan):
    install()
    people = plan().people
    with pytest.raises(BadAnswer, match="no rating form 'gone'"):
        FORMS["gone"].parse({"point": 1}, [1], people)
    assert FORMS["gone"].values({"point": 1}, [1], people) == {} and "gone" not in FORMS


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("item.html", "{% nonsense %}", "item.html is not a template"),
        ("item.html", None, "item.html cannot be read"),
        ("form.js", "createForm()", "form.js does not export a function createForm"),
        ("form.py", '"""None."""\n', "must define one subclass of Form"),
    ],
)
def test_rating_form_with_wrong_files_is_refused_with_the_reason(install, file, text, why):
    folder = install() / "scale"
    folder.mkdir()
    for path in (TEMPLATES / "rating_form").iterdir():
        (folder / path.stem).write_text(path.read_text())
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    with pytest.raises(BadAnswer, match=f"is refused: .*{why}"):
        FORMS["scale"].parse({"point": 1}, [1], None)


FORM = '''"""Asks for a point."""

from rftweb.plugins import Form, FormOptions

class Options(FormOptions):
    pass


class Exits(Form):
    fields = frozenset({"point"})
    asks = "Which?"

    def read(self, raw, question, problems):
        raise SystemExit
'''


def test_rating_form_that_exits_or_cannot_be_drawn_costs_only_its_item(install, plan):
    folder = install() / "exits"
    folder.mkdir()
    (folder / "form.py").write_text(FORM)
    (folder / "form.js").write_text("export function createForm(article, page) {}\n")
    (folder / "item.html").write_text('{% include "nowhere.html" %}')
    with pytest.raises(BadAnswer, match=r"exits failed: .*SystemExit"):
        FORMS["exits"].parse({"point": 1}, [1], plan().people)
    assert "Skip the item" in FORMS["exits"].template.render(Context({}))


@pytest.mark.django_db
def test_new_run_form_shows_a_field_for_each_plugin_option(install, run, alice):
    folder = install(middle=template("advantage"), polite=template("scorer")) / "scale"
    folder.mkdir()
    for path in (TEMPLATES / "rating_form").iterdir():
        (folder / path.stem).write_text(path.read_text())
    said = {
        "rewards": [{"scorer": "polite", "options": {"word": "thanks"}}],
        "people": {"form": "scale"},
        "algorithm": with_advantage(smallest_spread=0.5),
    }
    knobs = {knob.address: knob for knob in load_run_form(run.project, said, alice).knobs}
    assert knobs["rewards.0.options.word"].value == "thanks"
    assert knobs["rewards.0.options.word"].label == "polite: word"
    points = knobs["people.form_options.points"]
    assert (points.value, points.range) == (7, "2 to 9")
    assert knobs["algorithm.advantage.options.smallest_spread"].value == "0.5"


# -- environments, alerts and data


@pytest.mark.django_db
def test_environment_of_a_plugin_is_registered_and_its_options_are_checked(install, plan, project):
    install(counting=template("environment"))
    require_known_environment(
        plan(environment={"name": "counting", "options": {"count": 2}}), project
    )
    made = find_or_register(project, "counting")
    assert (made.title, made.turn_limit, made.reward_high) == ("Counting", 20, 1.0)
    with pytest.raises(ConfigError) as refusal:
        wrong = plan(environment={"name": "counting", "options": {"count": 0}})
        require_known_environment(wrong, project)
    assert "greater than or equal to 1" in refusal.value.problems["environment.options.count"]


@pytest.mark.django_db(transaction=True)
def test_alerts_are_sent_through_a_plugin_channel(install, project, alice, tmp_path):
    install(file=template("alert_channel"), mute=template("alert_channel") + "\nsend = 1 .real\n")
    place = tmp_path / "alerts.txt"
    assert check_channel_address("file", str(place)) == str(place)
    with pytest.raises(ValueError, match="absolute path"):
        check_channel_address("file", "nowhere")
    Channel.make(project, "file", str(place), alice).test()
    gone = Channel.make(project, "gone", "somewhere", alice).test()
    assert deliver() == 1
    assert place.read_text().startswith("Test: alerts of lab: This is a test")
    gone.refresh_from_db()
    assert gone.state == Delivery.State.WAITING and "no alert channel 'gone'" in gone.answer


@pytest.mark.django_db
def test_taskset_is_imported_from_a_plugin_dataset_source(install, project, tmp_path):
    install(lines=template("dataset_source"))
    place = tmp_path / "questions.txt"
    place.write_text("2 + 2? ; 4\n3 + 3? ; 6\n")
    words = ["--plugin", "lines", "--plugin-option", "separator=';'", "--slug", "sums"]
    call_command("taskset", "import", str(place), *words, stdout=io.StringIO())
    tasks = Taskset.objects.get(slug="sums").tasks.order_by("index")
    assert [task.answer["value"] for task in tasks] == ["4", "6"]
