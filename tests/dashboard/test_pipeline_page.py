"""The pipeline page of a run: what the pipeline did, a dry run that writes nothing, and the text
that changes it.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.buffer.models import Experience
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.models import CutRollout, OperatorCount
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group
from apps.runs.models import Run

SHORT = "- operator: length\n  stage: groups\n  options: {max_tokens: 3}\n"
SHAPED = "- operator: arithmetic\n  options: {operand: tokens, weight: -0.5}\n"


def address(name: str = "run-pipeline") -> str:
    return reverse(name, args=["lab", "tone-7"])


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def page(client) -> str:
    answer = client.get(address())
    assert answer.status_code == 200
    return answer.content.decode()


def tried(client, text: str) -> str:
    answer = client.post(address("run-pipeline-try"), {"pipeline": text})
    assert answer.status_code == 200
    return answer.content.decode()


def save(client, text: str, seen: str | None = None):
    html = page(client)
    known = html.partition('name="seen" value="')[2].partition('"')[0]
    return client.post(address(), {"pipeline": text, "seen": known if seen is None else seen})


def test_page_of_a_run_without_operators_lists_the_available_ones(alice_client):
    html = page(alice_client)
    assert (
        "All judged groups are used" in html
        and "dynamic_sampling" in html
        and "Apply to the run" in html
    )


def test_dry_run_shows_what_would_be_dropped_and_writes_nothing(alice_client, seeded):
    before = (
        Experience.objects.count(),
        Group.objects.filter(state="dropped").count(),
        OperatorCount.objects.count(),
    )
    html = tried(alice_client, SHORT)
    assert (
        "more than 3" in html
        and "would be trained on" in html
        and "dropped" in html
        and "group dropped: length" in html
    )
    assert before == (
        Experience.objects.count(),
        Group.objects.filter(state="dropped").count(),
        OperatorCount.objects.count(),
    )
    assert Run.objects.get().settings.pipeline == () and not CutRollout.objects.exists()


def test_unknown_evaluation_taskset_is_reported_with_its_field(alice_client):
    answer = save(alice_client, "- operator: contaminated\n  options: {tasksets: [held-out]}\n")
    assert (
        answer.status_code == 422 and "no taskset &#x27;held-out&#x27;" in answer.content.decode()
    )
    assert (
        "pipeline.0.options.tasksets.0" in answer.content.decode()
        and Run.objects.get().settings.pipeline == ()
    )


def test_a_dry_run_shows_rewards_before_and_after(alice_client, seeded):
    assert "→ -" in tried(alice_client, SHAPED)


def test_dry_run_of_an_empty_pipeline_keeps_all_admitted_groups(alice_client, seeded):
    admitted = Group.objects.filter(state="admitted", judged_at__isnull=False).count()
    assert f'<b class="num">{admitted}</b> would be trained on' in tried(alice_client, "")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("- operator: lenght", "pipeline.0.operator"),
        ("- operator: length\n  options: {max_tokens: none}", "pipeline.0.options.max_tokens"),
        ("length", "must be a list"),
        ("- {", "is not valid YAML"),
        ("- operator: length\n  opt: 1", "pipeline.0.opt"),
        ("- 5", "pipeline.0"),
    ],
)
def test_invalid_pipeline_is_reported_by_field_and_changes_nothing(alice_client, text, field):
    assert field in tried(alice_client, text)
    answer = save(alice_client, text)
    assert (
        answer.status_code == 422
        and field in answer.content.decode()
        and Run.objects.get().settings.pipeline == ()
    )


def test_saved_pipeline_applies_to_the_run_and_is_recorded(alice_client, seeded):
    assert save(alice_client, SHORT).status_code == 302
    run = Run.objects.get()
    assert [choice.operator for choice in run.settings.pipeline] == ["length"]
    assert run.topic.events.filter(kind="config_changed", payload__by="alice").exists()
    assert "operator: length" in page(alice_client) and "no data yet" in page(alice_client)


def test_saving_over_another_persons_change_is_rejected(alice_client, seeded):
    answer = save(alice_client, SHORT, seen="old")
    assert (
        answer.status_code == 409
        and "Someone else changed the configuration" in answer.content.decode()
    )
    assert Run.objects.get().settings.pipeline == ()


def test_rater_gets_403_from_pipeline_actions_and_sees_the_blind_notice(client, seeded):
    client.force_login(seeded.bob)
    assert "You rate this run blind" in page(client)
    for name in ("run-pipeline", "run-pipeline-try", "run-pipeline-again"):
        assert client.post(address(name), {"pipeline": SHORT}).status_code == 403


def test_stranger_gets_404_from_every_pipeline_action(client, seeded):
    client.force_login(seeded.carol)
    for name in ("run-pipeline", "run-pipeline-try", "run-pipeline-again"):
        assert client.post(address(name), {"pipeline": SHORT}).status_code == 404


def leave_out(run: Run, count: int) -> None:
    rollouts = list(run.rollouts.filter(state="finished").order_by("pk")[:count])
    rows = [
        CutRollout(run=run, rollout=one, place=0, operator="length", reason="9 tokens, more than 3")
        for one in rollouts
    ]
    CutRollout.objects.bulk_create(rows)


def test_page_lists_dropped_rollouts_with_reasons_and_counts(alice_client, seeded):
    leave_out(seeded.run, 2)
    OperatorCount.objects.create(run=seeded.run, place=0, operator="length", given=10, kept=8)
    save(alice_client, SHORT)
    html = page(alice_client)
    assert html.count("9 tokens, more than 3") == 2 and '<td class="r num">8</td>' in html


def queries(client) -> int:
    with CaptureQueriesContext(connection) as caught:
        page(client)
    return len(caught)


def test_page_queries_do_not_grow_with_dropped_rollouts(alice_client, seeded):
    leave_out(seeded.run, 1)
    few = queries(alice_client)
    CutRollout.objects.all().delete()
    leave_out(seeded.run, 12)
    assert queries(alice_client) == few


def test_groups_on_which_an_operator_failed_can_be_sent_to_the_refiner_again(alice_client, seeded):
    group = Group.objects.filter(state="admitted", judged_at__isnull=False).order_by("pk").last()
    group.experiences.all().delete()
    Group.objects.filter(pk=group.pk).update(
        state="dropped", reason="failed 3 times: length: ValueError: x"
    )
    Run.objects.update(groups_dropped=Run.objects.get().groups_dropped + 1)
    assert "failed repeatedly on 1 group" in page(alice_client)
    answer = alice_client.post(address("run-pipeline-again"), follow=True)
    assert "1 group sent to the refiner again" in answer.content.decode()
    group.refresh_from_db()
    assert group.state == Group.State.JUDGED and "failed repeatedly on" not in page(alice_client)


SHORT_TASKS = "- operator: prompt_length\n  options: {max_length: 30}\n"
NO_LOW = "- operator: reward_at_least\n  stage: batch\n  options: {threshold: 99}\n"


def test_dry_run_tests_random_tasks_and_writes_nothing(alice_client, seeded):
    html = tried(
        alice_client,
        "- operator: prompt_length\n  options: {max_length: 30}\n"
        "- operator: encoding\n  stage: tasks\n",
    )
    short = sum(len(task.question) <= 30 for task in seeded.run.taskset.tasks.all())
    assert (
        f'<b class="num">{short}</b> would be sampled' in html
        and "of 40 random tasks" in html.lower()
    )
    assert not OperatorCount.objects.exists() and not seeded.run.left_out.exists()


def test_dry_run_tests_the_rows_of_the_newest_step(alice_client, seeded):
    rows = seeded.run.steps.order_by("-number").first().items.count()
    html = tried(alice_client, NO_LOW)
    assert (
        f"Of the {rows} rows of step 3" in html
        and '<b class="num">0</b> would be used in its loss' in html
    )
    assert (
        "on the latest step" in html
        and "is below 99" in html
        and not OperatorCount.objects.exists()
    )


def test_dry_run_reports_an_operator_that_failed_on_tasks(alice_client, seeded, monkeypatch):
    def broken(*args):
        raise OperatorFailed("prompt_length: ValueError: x")

    monkeypatch.setattr("apps.pipelines.dry_run.sift_tasks", broken)
    assert "The operators failed on tasks: prompt_length: ValueError: x" in tried(
        alice_client, SHORT_TASKS
    )


def test_pipeline_that_leaves_no_task_cannot_be_saved(alice_client, seeded):
    answer = save(alice_client, "- operator: prompt_length\n  options: {min_length: 5000}\n")
    assert answer.status_code == 422 and "leaves no task of" in answer.content.decode()
    assert Run.objects.get().settings.pipeline == ()


def test_page_shows_excluded_tasks_and_rows_left_out_of_steps(alice_client, seeded):
    run = seeded.run
    run.left_out.create(
        task=run.taskset.tasks.get(index=7),
        reason="prompt_length: the prompt has 99 characters, more than 30",
    )
    run.steps.first().items.filter(position=0).update(
        left_out="reward_at_least: the reward 0.1 is below 0.2"
    )
    save(alice_client, NO_LOW)
    html = page(alice_client)
    assert (
        "the prompt has 99 characters" in html
        and "the reward 0.1 is below 0.2" in html
        and 'quiet">batch</td>' in html
    )


def test_page_queries_do_not_grow_with_excluded_tasks_and_rows(alice_client, seeded):
    run = seeded.run

    def leave(count: int) -> int:
        run.left_out.all().delete()
        for task in run.taskset.tasks.order_by("index")[:count]:
            run.left_out.create(task=task, reason="encoding: x")
        run.steps.first().items.filter(position__lt=count).update(left_out="length: x")
        return queries(alice_client)

    assert leave(1) == leave(8)


# -- tasks in quarantine


@pytest.fixture
def quarantine(seeded) -> LeftOut:
    """Return the quarantine entry of a task whose groups failed as often as the run allows."""
    reason = "3 of its groups failed, the last: engine died: <b>"
    return LeftOut.objects.create(
        run=seeded.run, task=seeded.run.tasks.order_by("pk").first(), reason=reason, failures=3
    )


def test_run_and_pipeline_pages_show_quarantined_tasks(alice_client, quarantine):
    assert (
        "Tasks in quarantine" in (html := page(alice_client)) and "engine died: &lt;b&gt;" in html
    )
    assert (
        f'aria-label="Release task {quarantine.task.index} of {quarantine.task.taskset.slug}"'
        in html
    )
    run_page = alice_client.get(reverse("run", args=["lab", "tone-7"])).content.decode()
    assert "1 task in quarantine" in run_page and address() + "#quarantine" in run_page


def test_pages_do_not_mention_quarantine_when_no_task_is_in_it(alice_client, seeded):
    assert "uarantine" not in page(alice_client)
    assert (
        "uarantine" not in alice_client.get(reverse("run", args=["lab", "tone-7"])).content.decode()
    )


def test_owner_releases_a_quarantined_task_and_the_release_is_recorded(
    alice_client, quarantine, seeded
):
    release = reverse("run-pipeline-release", args=["lab", "tone-7", quarantine.pk])
    said = alice_client.post(release, follow=True).content.decode()
    assert (
        f"Task {quarantine.task.index} of {quarantine.task.taskset.slug} can be sampled again"
        in said
    )
    assert not LeftOut.objects.exists() and "Tasks in quarantine" not in said
    told = seeded.run.topic.events.get(kind="task_released").payload
    assert told == {
        "taskset": quarantine.task.taskset.slug,
        "index": quarantine.task.index,
        "by": "alice",
    }
    assert (
        "it is not quarantined any more" in alice_client.post(release, follow=True).content.decode()
    )


def test_rater_cannot_release_a_task_and_sees_no_reasons(client, quarantine, seeded):
    client.force_login(seeded.bob)
    assert client.post(
        reverse("run-pipeline-release", args=["lab", "tone-7", quarantine.pk])
    ).status_code in (403, 404)
    assert LeftOut.objects.exists() and "engine died" not in page(client)


def test_queries_do_not_grow_with_quarantined_tasks_and_newest_ten_are_shown(
    alice_client, quarantine, seeded
):
    few = queries(alice_client)
    others = seeded.run.tasks.exclude(pk=quarantine.task_id)[:15]
    LeftOut.objects.bulk_create(
        LeftOut(run=seeded.run, task=task, reason="3 of its groups failed", failures=3)
        for task in others
    )
    assert queries(alice_client) == few
    assert "16, the newest 10" in " ".join(page(alice_client).split())
