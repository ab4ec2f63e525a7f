"""Prompts that leave no room for a reply are found before they are drawn, counted, shown, and
left out.
"""

import pytest
from django.urls import reverse

from apps.rollouts.models import Rollout
from apps.runs.models import Run, Worker
from workers.explorer import prompt_lengths
from workers.explorer.loop import ExplorerLoop

CONTEXT = 128  # tokens; in the untrained policy, each character is a token


@pytest.fixture
def explorer(transactional_db):
    made = ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield made
    made.stop()


@pytest.fixture
def wordy_run(new_run, tiny_policy, taskset):
    """Return a function that creates a run over four tasks, some with the given lengths."""

    def make(lengths: dict[int, int]) -> Run:
        for index, length in lengths.items():
            taskset.tasks.filter(index=index).update(
                prompt=[{"role": "user", "content": "1" * length}]
            )
        return new_run(sampling={"max_tokens": 8}, engine="transformers")

    return make


@pytest.mark.parametrize(
    "at_start", [True, False], ids=["found when it begins", "found when drawn"]
)
def test_too_long_task_is_left_out_and_its_draw_takes_another_task(
    wordy_run, explorer, monkeypatch, client, alice, at_start
):
    if not at_start:
        monkeypatch.setattr(prompt_lengths, "START_TASKS", 0)
    run = wordy_run({1: CONTEXT, 2: 5_000, 3: 100})
    explorer.serve()
    assert run.groups.count() == 4
    assert set(run.groups.values_list("task__index", flat=True)) == {0, 3}
    reasons = dict(run.left_out.values_list("task__index", "reason"))
    assert set(reasons) == {1, 2}
    assert (
        reasons[2] == "prompt length: 5,003 tokens leave no room for a reply; the policy reads 128"
    )
    client.force_login(alice)
    page = client.get(reverse("run", args=[run.project.slug, run.slug])).content.decode()
    assert "<b>2 tasks excluded:</b>" in page
    pipeline = client.get(
        reverse("run-pipeline", args=[run.project.slug, run.slug])
    ).content.decode()
    assert "5,003 tokens leave no room" in pipeline


def test_run_with_only_too_long_prompts_pauses_before_it_draws_any(wordy_run, explorer):
    run = wordy_run(dict.fromkeys(range(4), 300))
    explorer.serve()
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    assert (
        "no task of sort would be left to sample: prompt length: 303 tokens leave no room"
        in run.state_reason
    )
    assert not run.groups.exists() and not run.left_out.exists()


def test_prompt_that_leaves_room_for_one_token_is_sampled(wordy_run, explorer, eventually):
    run = wordy_run({0: CONTEXT - 4})  # three tokens for the template, one for the reply
    assert eventually(
        lambda: (
            explorer.serve()
            and Rollout.objects.filter(run=run, group__task__index=0)
            .exclude(state="sampling")
            .exists()
        )
    )
    ended = Rollout.objects.filter(run=run, group__task__index=0).exclude(state="sampling")
    assert set(ended.values_list("state", "completion_tokens")) == {("finished", 1)}
    assert not run.left_out.exists()


def test_template_that_refuses_a_task_pauses_the_run_with_its_message(wordy_run, explorer):
    run = wordy_run({})
    explorer.due = {run.pk}
    explorer._session_for(run)
    [session] = explorer.sessions.values()
    session.chat_tokenizer.tokenizer.chat_template = "{{ raise_exception('no system role here') }}"
    explorer.serve()
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED and "no system role here" in run.state_reason
