"""The pages of the test bench: the form, the verdicts and the regression set."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership
from apps.dashboard.testbench import BenchForm
from apps.rewards.models import RegressionCase, RegressionCheck, Trial
from apps.rewards.scorers import find_scorer, math
from apps.rewards.scoring import AnsweredQuestion
from apps.rewards.testbench import limits
from apps.rewards.testbench.scoring import collect_verdicts, next_questions
from apps.runs.models import Run, Worker

VERSION = find_scorer("math").version
MATH = {"scorer": "math", "task_from": "typed", "reference": "1/2", "reply": r"\boxed{0.5}"}


def address(name: str = "test-bench", *more: object) -> str:
    return reverse(name, args=["lab", *more])


@pytest.fixture
def bench(client, alice):
    client.force_login(alice)
    return client


@pytest.fixture
def ask(bench):
    """Return a function that posts the form and returns the created trial."""

    def post(**changes: object) -> Trial:
        answer = bench.post(address(), {**MATH, **changes})
        trial = Trial.objects.latest("pk")
        assert answer["Location"] == address("test-bench-trial", trial.pk)
        return trial

    return post


def judge(trial: Trial) -> Trial:
    """Score the whole trial in this process, as a worker does."""
    taken = Trial.objects.claim("scorer", 60)
    assert taken == trial
    scorer = find_scorer(trial.scorer)
    questions = next_questions(taken, limits.MAX_REPLIES)
    answers = [
        AnsweredQuestion(q, scorer.judge(q.rollouts, q.task, q.options), 0.012) for q in questions
    ]
    verdicts = collect_verdicts(taken.project_id, answers)
    assert taken.add([verdicts[place] for place in sorted(verdicts)])
    return Trial.objects.get(pk=trial.pk)


def html(client, path: str, **query: object) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200
    return answer.content.decode()


def refused(client, **changes: object) -> str:
    """Post a form that is rejected and return the page of the response."""
    answer = client.post(address(), {**MATH, **changes})
    assert answer.status_code == 422 and not Trial.objects.exists()
    return answer.content.decode()


def test_submitted_form_creates_a_trial_that_waits_for_a_scorer(bench, ask, alice):
    trial = ask(prompt="Half?\r\nReally?", options="tolerance: 0.01", domain="math")
    assert (trial.scorer, trial.options, trial.by) == ("math", {"tolerance": 0.01}, alice)
    assert trial.task == {
        "prompt": [{"role": "user", "content": "Half?\nReally?"}],
        "answer": {"value": "1/2"},
        "domain": "math",
        "meta": {},
    }
    assert trial.replies == [{"text": r"\boxed{0.5}"}]
    page = html(bench, address("test-bench-trial", trial.pk))
    assert "waiting for a scorer" in page and "No scorer is running" in page
    assert "data-refresh-ms" in page and "Half?\nReally?" in page and r"\boxed{0.5}" in page
    assert AuditEntry.objects.filter(action="scorer tried", by=alice).exists()


def test_waiting_trial_with_a_scorer_shows_no_warning(bench, ask):
    Worker.objects.create(key="s", role=Worker.Role.SCORER, host="here", pid=1)
    page = html(bench, address("test-bench-trial-now", ask().pk))
    assert "waiting for a scorer" in page
    assert "No scorer is running" not in page and "Live runs have priority" not in page


@pytest.mark.parametrize(
    ("reply", "reference", "badge", "told"),
    [
        (
            r"\boxed{0.5}",
            "1/2",
            "Paid",
            ("the right answer", "0.5", "1/2", f"version {VERSION}", "12 ms"),
        ),
        (r"\boxed{0.4}", "1/2", "Not paid", ("another answer", "0.4", "found in")),
        ("0.5", "", "No reward", ("the task has no answer", "not reported by the scorer")),
    ],
)
def test_verdict_shows_parsed_values_and_reason(bench, ask, reply, reference, badge, told):
    trial = judge(ask(reply=reply, reference=reference))
    page = html(bench, address("test-bench-trial-now", trial.pk))
    assert f">{badge}</span>" in page and "data-ended" in page
    assert [words for words in told if words not in page] == []


def test_several_replies_become_one_trial_and_empty_boxes_are_ignored(ask):
    trial = ask(reply=["1/2", "", "0.5\r\n"])
    assert [reply["text"] for reply in trial.replies] == ["1/2", "0.5\n"]


def test_adding_a_reply_box_keeps_the_input(bench):
    answer = bench.post(
        address(), {**MATH, "act": "add", "options": "tolerance: x", "reply": ["one", "two"]}
    )
    page = answer.content.decode()
    assert answer.status_code == 200 and not Trial.objects.exists()
    assert 'id="reply-3"' in page and "\none</textarea>" in page and "tolerance: x" in page


@pytest.mark.parametrize(
    ("reference", "value"),
    [("4", 4), ("0.5", 0.5), ('"4"', "4"), ("{1, 2}", "{1, 2}"), ("true", "true"), (" x ", "x")],
)
def test_numeric_reference_is_a_number_and_any_other_a_text(ask, reference, value):
    assert ask(reference=reference).task["answer"] == {"value": value}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scorer": ""}, "Choose a scorer."),
        ({"scorer": "maths"}, "did you mean &#x27;math&#x27;?"),
        ({"scorer": "run:none:math"}, "No run none with a scorer math"),
        ({"scorer": "model:none"}, "No reward model run &#x27;none&#x27; in this project"),
        ({"options": "tolerance: 7"}, "tolerance: Input should be less than or equal to 1"),
        ({"options": "colour: red"}, "colour: Extra inputs are not permitted"),
        ({"options": "- a list"}, "The options must be an object"),
        ({"options": "a: [1"}, "is not valid YAML"),
        ({"answer": "text"}, "The answer must be an object"),
        ({"task_from": "taskset"}, "Choose a taskset."),
        ({"task_from": "taskset", "taskset": "none"}, "No taskset none is in this project."),
        ({"reply": ["", ""]}, "Paste at least one reply."),
        ({"reply": ["ok", "é" * 40_000]}, "Reply 2 has 78.1 KiB; the maximum is 64."),
        ({"reply": ["x"] * 21}, "21 replies; the maximum is 20."),
        ({"prompt": "x" * 65_537}, "The prompt has 64.0 KiB; the maximum is 64."),
    ],
)
def test_invalid_input_is_reported_at_its_field_and_all_input_is_kept(bench, changes, told):
    page = refused(bench, **{"meta": "key: kept-meta", "reply": ["kept-reply"]} | changes)
    assert told in page
    assert "kept-meta" in page and ("kept-reply" in page or "reply" in changes)


def test_task_can_be_chosen_by_taskset_and_number(bench, ask, taskset):
    task = taskset.tasks.get(index=1)
    trial = ask(scorer="sort", task_from="taskset", taskset=taskset.slug, task="1")
    assert (trial.task["prompt"], trial.task["answer"]) == (task.prompt, task.answer)
    page = html(bench, address("test-bench-trial", trial.pk))
    assert f'value="{taskset.slug}"' in page and 'value="taskset" checked' in page


def test_task_number_outside_the_taskset_is_rejected_with_the_range(bench, taskset):
    page = refused(bench, task_from="taskset", taskset=taskset.slug, task="99999")
    assert f"{taskset.slug} has" in page and "numbered from 0" in page


def test_scorer_of_a_run_brings_its_options_and_typed_options_override_them(ask, new_run):
    run = new_run(rewards=[{"scorer": "math", "options": {"tolerance": 0.1, "units": False}}])
    trial = ask(scorer=f"run:{run.slug}:math", options="tolerance: 0.2")
    assert (trial.scorer, trial.options) == ("math", {"tolerance": 0.2, "units": False})
    assert "units: false" in trial.form["options"]


def test_rollout_page_links_to_the_test_bench_with_its_reply_and_task(client, seeded):
    client.force_login(seeded.alice)
    link = f"{address()}?rollout={seeded.rollout.pk}"
    assert link in html(client, reverse("rollout", args=[seeded.rollout.pk]))
    form = client.get(link).context["form"]
    task = seeded.rollout.group.task
    values = {name: form[name].value() for name in ("scorer", "task_from", "taskset", "task")}
    assert values == {
        "scorer": "run:tone-7:tone",
        "task_from": "taskset",
        "taskset": task.taskset.slug,
        "task": task.index,
    }
    said = {**values, "rollout": seeded.rollout.pk, "reply": [seeded.rollout.text, "other"]}
    client.post(address(), said)
    trial = Trial.objects.get()
    assert trial.replies[0]["tokens"] == seeded.rollout.completion_tokens
    assert trial.replies[1] == {"text": "other"}


def test_trial_is_rejected_when_too_many_are_open(bench, ask, monkeypatch):
    monkeypatch.setattr("apps.rewards.testbench.asking.MAX_OPEN_TRIALS", 1)
    ask()
    answer = bench.post(address(), MATH)
    assert answer.status_code == 422 and Trial.objects.count() == 1
    assert "1 trials of this project are waiting for a scorer" in answer.content.decode()


def test_only_the_newest_trials_are_kept(ask, monkeypatch):
    monkeypatch.setattr("apps.rewards.testbench.asking.TRIALS_KEPT", 2)
    trials = [judge(ask()) for _ in range(3)]
    assert set(Trial.objects.all()) == set(trials[1:])


def test_verdict_can_be_kept_as_a_case_and_opened_again(bench, ask, alice):
    trial = judge(ask(reply=["1/2", "7"]))
    said = {"place": "1", "expected": "0", "note": "must stay so"}
    answer = bench.post(address("test-bench-keep", trial.pk), said, follow=True)
    case = RegressionCase.objects.get()
    assert f"Case {case.pk} added to the regression set; it holds." in answer.content.decode()
    assert (case.expected, case.value, case.holds, case.note) == (0.0, 0.0, True, "must stay so")
    assert (case.by, case.version, case.reply) == (alice, VERSION, {"text": "7"})
    page = html(bench, address("test-bench-cases"))
    assert "all hold" in page and "must stay so" in page
    form = bench.get(address(), {"case": case.pk}).context["form"]
    assert (form["reference"].value(), form.replies) == ("1/2", ["7"])


def test_a_case_kept_twice_is_one_case_with_the_newer_expectation(bench, ask):
    trial = judge(ask(reply="7"))
    for expected in ("0", "1"):
        bench.post(address("test-bench-keep", trial.pk), {"place": "0", "expected": expected})
    case = RegressionCase.objects.get()
    assert (case.expected, case.holds) == (1.0, False)
    assert "1 differs" in html(bench, address("test-bench-cases"))
    acts = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(acts)[-2:] == ["regression case added", "regression case changed"]


def test_undecided_expects_no_reward(bench, ask):
    trial = judge(ask(reference=""))
    said = {"place": "0", "expected": "undecided"}
    bench.post(address("test-bench-keep", trial.pk), said)
    case = RegressionCase.objects.get()
    assert (case.expected, case.value, case.holds) == (None, None, True)
    assert case.reason == "the task has no answer"


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ("much", "Expected: enter a number such as 0.5"),
        ("nan", "Expected: enter a number such as 0.5"),
        ("2", "Expected: must be from 0 to 1, the range of math, not 2."),
    ],
)
def test_invalid_expectation_is_rejected_and_the_input_is_kept(bench, ask, expected, told):
    trial = judge(ask())
    said = {"place": "0", "expected": expected, "note": "typed-note"}
    answer = bench.post(address("test-bench-keep", trial.pk), said)
    page = answer.content.decode()
    assert answer.status_code == 422 and not RegressionCase.objects.exists()
    assert told in page and f'value="{expected}"' in page and 'value="typed-note"' in page


def test_compared_replies_cannot_become_cases(bench, ask):
    trial = judge(ask(scorer="length", reply=["one", "two"]))
    assert "Keep as a case" not in html(bench, address("test-bench-trial", trial.pk))
    answer = bench.post(address("test-bench-keep", trial.pk), {"place": "0", "expected": ""})
    assert (
        answer.status_code == 422 and "a single reply cannot be a case" in answer.content.decode()
    )


def test_the_number_of_cases_is_limited(bench, ask, monkeypatch):
    monkeypatch.setattr("apps.rewards.testbench.asking.MAX_CASES", 0)
    trial = judge(ask())
    answer = bench.post(address("test-bench-keep", trial.pk), {"place": "0", "expected": "1"})
    assert answer.status_code == 422 and "cases, which is the maximum" in answer.content.decode()


def test_reply_without_a_verdict_cannot_become_a_case(bench, ask):
    answer = bench.post(address("test-bench-keep", ask().pk), {"place": "0", "expected": "1"})
    assert answer.status_code == 404


def test_checking_the_cases_shows_its_progress(bench, ask, alice):
    trial = judge(ask())
    assert (
        "no cases to check" in bench.post(address("test-bench-cases"), follow=True).content.decode()
    )
    bench.post(address("test-bench-keep", trial.pk), {"place": "0", "expected": "1"})
    RegressionCase.objects.update(version=1)
    assert f"now {math.VERSION}" in html(bench, address("test-bench-cases"))
    bench.post(address("test-bench-cases"))
    check = RegressionCheck.objects.get()
    assert (check.by, check.cases, check.state) == (alice, 1, "waiting")
    page = html(bench, address("test-bench-cases-now"))
    assert "0 of 1 cases checked" in page and "Check all cases" not in page


def test_deleted_case_is_recorded_in_the_audit_log(bench, ask, alice):
    trial = judge(ask())
    bench.post(address("test-bench-keep", trial.pk), {"place": "0", "expected": "1"})
    case = RegressionCase.objects.get()
    bench.post(address("test-bench-delete", case.pk))
    assert not RegressionCase.objects.exists()
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.by, entry.details["expected"]) == (
        "regression case deleted",
        alice,
        1.0,
    )


def test_queries_do_not_grow_with_the_number_of_cases(bench, ask):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            html(bench, address("test-bench-cases"))
        return len(captured)

    trial = judge(ask(reply=["1", "2", "3", "4"]))
    counts = []
    for place in range(4):
        bench.post(address("test-bench-keep", trial.pk), {"place": place, "expected": "0"})
        counts.append(queries())
    assert counts[-1] <= counts[1]


def test_researchers_can_use_the_bench_and_raters_and_strangers_cannot(
    client, ask, bob, carol, project
):
    trial = judge(ask())
    pages = [
        address(),
        address("test-bench-trial", trial.pk),
        address("test-bench-trial-now", trial.pk),
        address("test-bench-cases"),
        address("test-bench-cases-now"),
    ]
    keep = address("test-bench-keep", trial.pk)
    for person, status in ((bob, 403), (carol, 404)):
        client.force_login(person)
        assert {client.get(page).status_code for page in pages} == {status}
        assert client.post(keep, {"place": "0"}).status_code == status
        assert client.post(address(), MATH).status_code == status
    Membership.objects.filter(project=project, user=bob).update(role="researcher")
    client.force_login(bob)
    assert {client.get(page).status_code for page in pages} == {200}


def test_rollouts_and_tasksets_of_other_projects_cannot_be_used(bench, ask, new_run, finish, admin):
    from apps.accounts.models import Project

    [group] = finish(new_run())
    other = Project.create("Other", "other", admin)
    bench.force_login(admin)
    path = reverse("test-bench", args=["other"])
    rollout = group.rollouts.first()
    assert bench.get(path, {"rollout": rollout.pk}).status_code == 404
    assert bench.get(path, {"case": "1"}).status_code == 404
    assert bench.get(path, {"rollout": "x"}).status_code == 404
    form = BenchForm(other)
    assert "run-0" not in str(form) and Run.objects.filter(project=other).count() == 0
    said = {**MATH, "task_from": "taskset", "taskset": group.task.taskset.slug, "task": "0"}
    assert bench.post(path, said).status_code == 422
