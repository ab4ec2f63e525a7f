"""Reward models, from people's preferences to rewards for the rollouts of another run."""

from collections.abc import Callable

import pytest

from apps.rewards import learned
from apps.rewards.models import Reward
from apps.rewards.scoring import require_known_scorers
from apps.rollouts.models import Group
from apps.runs.config import ConfigError
from apps.runs.models import Run, WeightVersion
from tests.feedback.teaching import prefer
from tests.workers.trainer.conftest import base, new_loop, tiny_run  # noqa: F401
from workers import scorer
from workers.reward_models import LoadedModel, NotTheseWeights
from workers.trainer.lessons import reward_model


@pytest.fixture
def trained(tiny_run, new_loop, taskset) -> Callable[[int], Run]:
    """Return a function that trains a reward model which prefers the right answers."""

    def train(steps: int) -> Run:
        prefer(taskset, (None, 0.25, 0.5))
        run = tiny_run(
            steps=steps,
            group_size=8,
            groups_per_step=16,
            rewards=[],
            algorithm={"name": "reward_model"},
            snapshot={"source": "preferences", "rows": 12},
            optimizer={"learning_rate": 5e-3, "warmup_steps": 0},
        )
        loop = new_loop()
        for _ in range(steps + 10):
            loop.serve()
            run.refresh_from_db()
            if run.state == Run.State.COMPLETED:
                return run
        raise AssertionError(f"{run} is {run.state}: {run.state_reason}")

    return train


@pytest.fixture
def judge(trained) -> Run:
    """Train a reward model until it knows what people prefer."""
    return trained(30)


@pytest.fixture
def novice(trained) -> Run:
    """Train a reward model for two updates, for tests that can use any."""
    return trained(2)


def test_preferred_replies_score_higher(judge, taskset):
    model = LoadedModel(learned.find_reward_model(judge.project_id, f"model:{judge.slug}").folder)
    tasks = list(taskset.tasks.all())
    better = model.judge([(task.prompt, task.answer["sorted"]) for task in tasks])
    worse = model.judge(
        [(task.prompt, task.question) for task in tasks if task.question != task.answer["sorted"]]
    )
    assert min(verdict.details["score"] for verdict in better) > max(
        verdict.details["score"] for verdict in worse
    )
    assert all(0 <= verdict.value <= 1 for verdict in better + worse)


def test_texts_scored_together_do_not_affect_each_others_scores(judge, taskset):
    model = LoadedModel(learned.find_reward_model(judge.project_id, f"model:{judge.slug}").folder)
    questions = [([{"role": "user", "content": "1" * n}], "2" * n) for n in (1, 7, 3)]
    together = [verdict.details["score"] for verdict in model.judge(questions)]
    alone = [model.judge([question])[0].details["score"] for question in questions]
    assert together == pytest.approx(alone, abs=1e-5)


def test_text_longer_than_the_models_context_has_no_reward(novice):
    model = LoadedModel(learned.find_reward_model(novice.project_id, f"model:{novice.slug}").folder)
    (verdict,) = model.judge([([{"role": "user", "content": "1"}], "2" * 500)])
    assert verdict.value is None and "context of 128" in verdict.reason


def test_scorer_worker_records_rewards_of_the_reward_model(novice, tiny_run, finish, monkeypatch):
    run = tiny_run(rewards=[{"scorer": f"model:{novice.slug}"}, {"scorer": "sort"}], group_size=2)
    finish(run, ["12345", "54321"])
    assert scorer.serve()
    rewards = Reward.objects.filter(rollout__run=run)
    assert set(rewards.values_list("source", "scorer")) == {
        ("model", f"model:{novice.slug}"),
        ("rule", "sort"),
    }
    assert not rewards.filter(value=None).exists()
    assert set(Group.objects.filter(run=run).values_list("state", flat=True)) == {"judged"}


def test_missing_weights_give_null_with_the_reason(novice, tiny_run, finish):
    run = tiny_run(rewards=[{"scorer": f"model:{novice.slug}"}], group_size=2)
    WeightVersion.objects.filter(run=novice).update(state="retired")
    finish(run, ["12345", "54321"])
    scorer.serve()
    assert set(Reward.objects.filter(rollout__run=run).values_list("value", flat=True)) == {None}
    assert "no longer has this version" in Reward.objects.filter(rollout__run=run).first().reason


def test_reward_model_name_selects_a_version_and_invalid_names_are_refused(novice, plan, project):
    newest = learned.find_reward_model(project.pk, f"model:{novice.slug}")
    assert (newest.version, learned.find_reward_model(project.pk, f"model:{novice.slug}@2")) == (
        2,
        newest,
    )
    for name, words in {
        "model:nobody": f"there are: model:{novice.slug}",
        f"model:{novice.slug}@99": "the latest is 2",
        f"model:{novice.slug}@0": "no longer has this version",
        f"model:{novice.slug}@last": "a weight version number must follow",
    }.items():
        with pytest.raises(ConfigError, match=words):
            require_known_scorers(plan(rewards=[{"scorer": name}]), project)
    Run.objects.filter(pk=novice.pk).update(state=Run.State.RUNNING)
    with pytest.raises(LookupError, match="has not completed"):
        learned.find_reward_model(project.pk, f"model:{novice.slug}")


def test_weights_that_fail_their_probe_scores_are_refused(novice, monkeypatch):
    folder = learned.find_reward_model(novice.project_id, f"model:{novice.slug}").folder
    scores = reward_model.probe_scores
    monkeypatch.setattr(
        "workers.reward_models.probe_scores", lambda model, ids: [s + 1 for s in scores(model, ids)]
    )
    with pytest.raises(NotTheseWeights):
        LoadedModel(folder)


def test_equal_seeds_give_equal_scalar_heads(base, tmp_path):
    folders = [
        reward_model.ensure_base(base, tmp_path / str(n), seed) for n, seed in enumerate((0, 0, 1))
    ]
    prints = [reward_model.verify_folder(folder).fingerprint for folder in folders]
    assert prints[0] == prints[1] != prints[2]
