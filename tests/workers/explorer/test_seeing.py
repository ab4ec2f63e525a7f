"""A vision policy learns from tasks with pictures: sampled by the real engine, scored, refined,
trained, served again.
"""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.dashboard.reconciliation import reconcile
from apps.environments.agents.keys import Caller
from apps.environments.agents.parameters import read_chat_call
from apps.environments.agents.turns import begin_turns
from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import assign_episode
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.playing import observe, record_turn_reward
from apps.policies.models import Policy
from apps.policies.registering import register_policy
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.config import ConfigError
from apps.runs.models import Acknowledgement, Metric, Run, Worker
from apps.tasksets import generators
from apps.tasksets.models import Picture, Taskset
from apps.tasksets.pictures import encode_picture
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset
from workers import refiner, scorer, scorer_dispatch
from workers.explorer.loop import ExplorerLoop
from workers.policies.tiny_vision import QUESTION, build_seeing, squares
from workers.trainer.loop import TrainerLoop

pytestmark = pytest.mark.django_db(transaction=True)
STEPS = 8


@pytest.fixture(scope="session")
def warm(tmp_path_factory) -> Path:
    """Build a policy that names the right one of four colours a little more often than others."""
    folder = tmp_path_factory.mktemp("policies") / "seeing"
    build_seeing(folder, warmup_steps=120)
    return folder


@pytest.fixture
def colours(project) -> Taskset:
    """Store a taskset of twenty squares; the answer is the colour."""
    stream = squares(1234)
    rows = []
    for _ in range(20):
        png, colour = next(stream)
        kept = encode_picture(png)
        said = [{"type": "image", "picture": kept.sha256}, {"type": "text", "text": QUESTION}]
        rows.append(
            TaskRow([{"role": "user", "content": said}], {"sorted": colour}, pictures=(kept,))
        )
    return store_taskset(Origin(project, "colours", "Colours of squares", "test", 1234), rows)


@pytest.fixture
def seeing_policy(project, warm) -> Policy:
    return register_policy(project, "seeing", warm, "test")


@pytest.fixture
def seeing_plan(plan, colours, seeing_policy):
    def make(**changes: object):
        fields = {
            "policy": "seeing",
            "taskset": "colours",
            "engine": "transformers",
            "steps": STEPS,
            "group_size": 8,
            "groups_per_step": 6,
            "max_staleness": 0,
            "sampling": {"max_tokens": 3},
            "rewards": [{"scorer": "sort"}],
            "optimizer": {"learning_rate": 8e-4, "warmup_steps": 0},
            "checkpoints": {"every": 5},
            "tower": "trained",
        }
        return plan(**{**fields, **changes})

    return make


@pytest.fixture(autouse=True)
def fresh_workers():
    for worker in (scorer, refiner):
        worker.own_worker_row.cache_clear()
    yield
    if scorer_dispatch.grader.cache_info().currsize:
        scorer_dispatch.grader().stop()
        scorer_dispatch.grader.cache_clear()


@pytest.fixture
def loops(transactional_db, settings, tmp_path):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    explorer = ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    trainer = TrainerLoop(
        Worker.objects.create(key="trainer@test", role=Worker.Role.TRAINER, host="test", pid=2)
    )
    yield explorer, trainer
    explorer.stop()
    trainer.stop()


def run_to_the_end(
    run: Run, loops, eventually, meanwhile: Callable[[], None] = lambda: None
) -> None:
    explorer, trainer = loops

    def turn() -> bool:
        explorer.serve()
        meanwhile()
        while scorer.serve() or refiner.serve():
            pass
        trainer.serve()
        run.refresh_from_db()
        assert run.state in (Run.State.RUNNING, Run.State.COMPLETED), run.state_reason
        return run.state == Run.State.COMPLETED

    eventually(turn, 400)


@pytest.mark.nightly
def test_each_version_of_a_vision_policy_is_served_as_it_was_trained(
    project, seeing_plan, seeing_policy, loops, eventually
):
    assert seeing_policy.sees_pictures and seeing_policy.context_tokens == 128
    run = Run.create(project=project, slug="seeing", title="Colours", plan=seeing_plan())
    run.start()
    run_to_the_end(run, loops, eventually)
    assert (run.step, run.published_version) == (STEPS, STEPS)
    gaps = Metric.objects.filter(run=run, name="behaviour_gap").values_list("value", flat=True)
    assert len(gaps) == STEPS and max(gaps) <= 1e-3
    served = Acknowledgement.objects.filter(weight_version__run=run)
    assert served.count() >= STEPS and max(served.values_list("probe_gap", flat=True)) < 1e-3
    assert {name: found for name, found in reconcile().items() if found} == {}
    assert not Reward.objects.filter(value=None).exists()


def sampled(run: Run, loops, eventually) -> Rollout:
    """Start the run and return its first finished rollout."""
    run.start()

    def look() -> Rollout | None:
        loops[0].serve()
        return (
            Rollout.objects.filter(run=run, state=Rollout.State.FINISHED)
            .select_related("group__task")
            .first()
        )

    return eventually(look, 300)


def test_rollout_stores_its_picture_and_the_picture_tokens(project, seeing_plan, loops, eventually):
    store_taskset(
        Origin(project, "shapes", "Shapes", "shapes", 0), generators.find_generator("shapes")(8, 0)
    )
    plan = seeing_plan(taskset="shapes", rewards=[{"scorer": "counting"}])
    rollout = sampled(
        Run.create(project=project, slug="seeing", title="Shapes", plan=plan), loops, eventually
    )
    ((name, first, past),) = rollout.tokens.pictures
    assert name == rollout.group.task.prompt[0]["content"][0]["picture"]
    assert name == hashlib.sha256(bytes(project.pictures.get(sha256=name).png)).hexdigest()
    assert past - first == 16 and len(set(rollout.tokens.prompt_ids[first:past])) == 1
    assert rollout.prompt_tokens == len(rollout.tokens.prompt_ids) > 16
    assert "<image>" not in rollout.text


def test_text_only_policy_with_a_picture_taskset_is_refused_by_name(project, policy, seeing_plan):
    with pytest.raises(
        ConfigError,
        match=r"policy: 'tiny' .*reads only text, but tasks of 'colours' show pictures",
    ):
        Run.create(project=project, slug="blind", title="Blind", plan=seeing_plan(policy="tiny"))
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"lora": {"rank": 2}}, "lora"),
        ({"algorithm": {"name": "mix", "expert": {"ratio": 0.5}}}, "algorithm.expert"),
    ],
)
def test_options_that_do_not_support_pictures_are_refused_by_field(
    project, seeing_plan, changes, field
):
    with pytest.raises(ConfigError) as refusal:
        Run.create(project=project, slug="no", title="No", plan=seeing_plan(**changes))
    assert field in refusal.value.problems


class Showing:
    """A push environment: it asks to look, shows a square after the first answer, and ends after
    the second.
    """

    def __init__(self, environment: Environment, by: User) -> None:
        self.environment, self.by, self.squares, self.taken = environment, by, squares(77), []

    def move(self) -> None:
        for episode in self.taken:
            self._answer(episode)
        if (episode := assign_episode(self.environment, self.by)) is not None:
            observe(episode.pk, 0, "EncodedPicture.")
            self.taken.append(episode)

    def _answer(self, episode: Episode) -> None:
        episode.refresh_from_db()
        turn = episode.seen.order_by("number").last()
        if episode.closed_at or turn.answered_at is None:
            return
        earned = float(len(turn.action) % 2)
        if turn.number == 0:
            observe(episode.pk, 1, self._square(), reward=earned)
        else:
            observe(episode.pk, 2, "", reward=earned, done=True)

    def _square(self) -> list[dict]:
        png, _ = next(self.squares)
        return look_at(png)


def look_at(png: bytes) -> list[dict]:
    """Return the question about a square in OpenAI's format."""
    address = "data:image/png;base64," + base64.b64encode(png).decode()
    parts = [
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "text", "text": QUESTION},
    ]
    return [{"role": "user", "content": parts}]


def test_pictures_of_an_environment_are_seen_and_trained_on(
    project, seeing_plan, loops, eventually, alice
):
    outside = Environment.objects.create(
        project=project, name="outside", kind="push", turn_limit=4, parallel=100
    )
    shape = {"steps": 2, "group_size": 4, "groups_per_step": 2, "sampling": {"max_tokens": 60}}
    plan = seeing_plan(environment={"name": "outside"}, rewards=[], **shape)
    run = Run.create(project=project, slug="shown", title="Shown", plan=plan)
    run.start()
    run_to_the_end(run, loops, eventually, Showing(outside, alice).move)
    rollouts = Rollout.objects.filter(run=run, stop_reason="the environment is done")
    assert rollouts and all(len(rollout.tokens.pictures) == 2 for rollout in rollouts)
    for rollout in rollouts:
        mask = [0] * rollout.prompt_tokens + list(rollout.tokens.action_mask)
        assert all(
            past - first == 16 and not any(mask[first:past])
            for _, first, past in rollout.tokens.pictures
        )
    gaps = Metric.objects.filter(run=run, name="behaviour_gap").values_list("value", flat=True)
    assert len(gaps) == 2 and max(gaps) <= 1e-3
    assert {name: found for name, found in reconcile().items() if found} == {}


def test_vision_policy_answers_text_only_tasks(project, taskset, seeing_plan, loops, eventually):
    run = Run.create(
        project=project,
        slug="text",
        title="Text",
        plan=seeing_plan(taskset="sort", steps=1, sampling={"max_tokens": 6}),
    )
    assert sampled(run, loops, eventually).tokens.pictures == ()


def test_calls_with_pictures_are_answered_and_trained_on(
    project, seeing_plan, loops, eventually, alice
):
    """The picture is in the body of a chat completion, as any OpenAI client sends it."""
    serves = {
        "taskset": "asked",
        "group_size": 1,
        "algorithm": {"name": "reinforce_plus_plus"},
        "environment": {"name": "agent"},
    }
    plan = seeing_plan(**serves, serve={}, rewards=[], steps=1, groups_per_step=2)
    run = Run.create(project=project, slug="served", title="Served", plan=plan)
    run.start()
    caller = Caller(alice, run, find_or_register(project, "agent"), "")
    shown = squares(5)
    said: list[EpisodeTurn] = []

    def call() -> None:
        """Make two calls, and give a thumb to each answer as soon as it arrives."""
        if not said:
            said.extend(
                begin_turns(
                    caller,
                    read_chat_call({"model": "seeing", "messages": look_at(next(shown)[0])}, run),
                )[0]
                for _ in range(2)
            )
        for place, turn in enumerate(said):
            turn.refresh_from_db()
            if turn.answered_at and turn.reward is None:
                record_turn_reward(turn.episode_id, 0, float(place), is_final=True)

    run_to_the_end(run, loops, eventually, call)
    rollouts = Rollout.objects.filter(run=run)
    assert [len(rollout.tokens.pictures) for rollout in rollouts] == [1, 1]
    assert Picture.objects.filter(
        project=project, sha256=rollouts[0].tokens.pictures[0][0]
    ).exists()
    assert Metric.objects.get(run=run, name="behaviour_gap").value <= 1e-3
    assert {name: found for name, found in reconcile().items() if found} == {}
