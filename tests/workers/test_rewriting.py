"""Tasks rewritten by a real HTTP service: rewrites are checked, interrupted rewriting continues,
and each task names its parent.
"""

import io

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from apps.rewards.models import JudgeReply
from apps.tasksets.ledger import derived_tasks_name_their_source
from apps.tasksets.models import Task, Taskset
from apps.tasksets.pictures import encode_picture
from apps.tasksets.rewriting import why_not_paraphrasable, why_refused
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.storing import Origin, build_task, store_taskset
from tests.workers.test_judge_models import serve  # noqa: F401

pytestmark = pytest.mark.django_db
ASKED = "Tom has 12 apples and eats 5 of them. How many are left? Put the answer in \\boxed{}."
TOLD = "Of the 12 apples that Tom has he eats 5. What remains? Answer in \\boxed{}."


def task(asked: str = ASKED, answer: object = 7, **known: object) -> Task:
    return build_task(
        Taskset(slug="apples"), 3, TaskRow(user_message(asked), {"value": answer}, **known)
    )


# -- guards


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (TOLD, ""),
        ("", "nothing was said"),
        ("  \n", "nothing was said"),
        (ASKED.upper() + " ", "says the same words"),
        (TOLD.replace("5", "some"), "loses a number: 5"),
        (TOLD.replace("12", "1 2"), "loses a number: 12"),
        (TOLD + " It is not 9.", "contains a number that the original does not have: 9"),
        (TOLD + " (7 is right.)", "contains a number that the original does not have: 7"),
        (TOLD.replace("\\boxed{}", "a box"), "loses a mark: \\boxed"),
        (TOLD + " really" * 100, "is too long: 774 characters instead of 84"),
    ],
)
def test_rewrite_must_use_other_words_and_the_same_numbers_and_marks(said, why):
    assert why_refused(task(), said) == why


def test_each_occurrence_of_a_number_counts_in_any_spelling():
    twice = task("Add 5 to 5, and 1,000 to it.", 1010)
    assert why_refused(twice, "To 1000 add 5, and again 5.") == ""
    assert why_refused(twice, "To 1000 add 5 twice.") == "loses a number: 5"


@pytest.mark.parametrize(
    ("asked", "answer", "said", "gives_it_away"),
    [
        ("Which town is the capital of France?", "Paris", "Is paris the capital of France?", True),
        (
            "Which town is the capital of France?",
            "Paris",
            "Name the capital of France, not Parisian suburbs.",
            False,
        ),
        ("Is it Paris or Lyon?", "Paris", "Paris or Lyon, which is it?", False),
        ("Who wrote it?", ["Ada", "Grace"], "Did Grace write it?", True),
        ("Is it so?", True, "True or not, say whether.", False),
    ],
)
def test_rewrite_may_contain_the_answer_only_if_the_task_did(asked, answer, said, gives_it_away):
    assert why_refused(task(asked, answer), said) == (
        "gives the answer away" if gives_it_away else ""
    )


def test_conversations_and_other_unsuitable_tasks_are_not_rewritten():
    picture = encode_picture(_png())
    shown = [
        {
            "role": "user",
            "content": [
                {"type": "picture", "picture": picture.sha256},
                {"type": "text", "text": "What?"},
            ],
        }
    ]
    assert why_not_paraphrasable(task(follow_ups=["And then?"])).startswith("is a conversation")
    said = [*user_message("Hi"), {"role": "assistant", "content": "Hi"}, *user_message("And?")]
    assert why_not_paraphrasable(build_task(Taskset(), 0, TaskRow(said))).startswith(
        "is a conversation"
    )
    assert why_not_paraphrasable(build_task(Taskset(), 0, TaskRow(shown))).startswith(
        "contains an image"
    )
    assert why_not_paraphrasable(task(" ")) == "asks nothing"
    assert (
        why_not_paraphrasable(
            build_task(
                Taskset(),
                0,
                TaskRow([{"role": "system", "content": "Be brief."}, *user_message("1+1?")]),
            )
        )
        == ""
    )


def _png() -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "PNG")
    return stream.getvalue()


# -- the command


@pytest.fixture
def apples(project) -> Taskset:
    """Create five tasks of which the third is a dialogue."""
    rows = [
        TaskRow(user_message(f"Tom has {n} apples and eats {n - 1}. How many?"), {"value": "one"})
        for n in range(3, 8)
    ]
    rows[2] = TaskRow(rows[2].prompt, rows[2].answer, follow_ups=["Why?"])
    return store_taskset(Origin(project, "apples", "Apples", "test"), rows)


def asked_of(body: dict) -> str:
    """Return the task in a request."""
    return body["messages"][1]["content"].split("\n")[1]


def turned(body: dict, n: int) -> str:
    numbers = [word.rstrip(".") for word in asked_of(body).split() if word.rstrip(".").isdigit()]
    return f"How many of {numbers[0]} apples has Tom when {numbers[1]} are eaten?"


def said(service: object, *more: object) -> str:
    out = io.StringIO()
    address = getattr(service, "address", service)
    call_command(
        "taskset",
        "rewrite",
        "apples",
        "--address",
        address,
        "--model",
        "m",
        *map(str, more),
        stdout=out,
    )
    return out.getvalue()


def refusal(service: object, *more: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(service, *more)
    return str(caught.value)


def test_tasks_are_rewritten_and_keep_their_answers_and_parents(serve, apples):
    service = serve(turned)
    told = said(service)
    made = Taskset.objects.get(slug="apples-rewritten")
    assert (
        "taskset apples-rewritten: 4 tasks, 1 lines set aside" in told
        and made.source == "apples rewritten by m"
    )
    tasks = list(made.tasks.order_by("index").select_related("descent__parent"))
    assert [one.question for one in tasks] == [
        f"How many of {n} apples has Tom when {n - 1} are eaten?" for n in (3, 4, 6, 7)
    ]
    assert [one.descent.parent.index for one in tasks] == [0, 1, 3, 4] and {
        one.answer["value"] for one in tasks
    } == {"one"}
    assert [one.meta["parents"] for one in tasks] == [
        ["apples#0"],
        ["apples#1"],
        ["apples#3"],
        ["apples#4"],
    ]
    assert "1 refused: is a conversation whose messages refer to each other" in told
    assert list(derived_tasks_name_their_source()) == []


def test_refused_rewrites_are_listed_with_the_reason(serve, apples, client, alice):
    service = serve(
        lambda body, n: "Tom has one apple." if "has 4 " in asked_of(body) else turned(body, n)
    )
    told = said(service)
    assert "1 refused: its rewrite loses a number" in told
    lines = {
        line.line: line.reason
        for line in Taskset.objects.get(slug="apples-rewritten").quarantined_lines.all()
    }
    assert lines[1] == "task 1: its rewrite loses a number: 4" and lines[2].startswith(
        "task 2: is a conversation"
    )
    client.force_login(alice)
    page = client.get(reverse("taskset", args=["lab", "apples-rewritten"])).content.decode()
    assert (
        "its rewrite loses a number: 4" in page
        and "Tom has one apple." in page
        and "?from=3" in page
    )


def test_several_rewrites_of_a_task_must_differ(serve, apples):
    service = serve(lambda body, n: turned(body, n) + (" Say it." if body["seed"] == 2 else ""))
    told = said(service, "--per-task", "3", "--limit", "1")
    made = Taskset.objects.get(slug="apples-rewritten")
    assert made.size == 2 and "1 refused: its rewrite was said before" in told


def test_thoughts_of_the_model_are_removed_from_the_rewrite(serve, apples):
    said(
        serve(lambda body, n: f"<think>One is the answer.</think>\n{turned(body, n)}"),
        "--limit",
        "1",
    )
    assert (
        Taskset.objects.get(slug="apples-rewritten")
        .tasks.get()
        .question.startswith("How many of 3 apples")
    )


def test_interrupted_rewriting_continues_where_it_stopped(serve, apples):
    broken = serve(lambda body, n: 400 if "has 7 " in asked_of(body) else turned(body, n))
    why = refusal(broken)
    assert (
        "1 tasks got no reply, for example task 4" in why
        and "run the command again to continue" in why
    )
    assert (
        not Taskset.objects.filter(slug="apples-rewritten").exists()
        and JudgeReply.objects.count() == 3
    )
    broken.speak, broken.asked[:] = turned, []
    assert "4 tasks" in said(broken)
    assert [asked_of(body) for body in broken.asked] == ["Tom has 7 apples and eats 6. How many?"]


def test_tasks_without_a_reply_can_be_set_aside_and_are_not_asked_again(serve, apples):
    service = serve(lambda body, n: 400 if "has 7 " in asked_of(body) else turned(body, n))
    told = said(service, "--set-aside")
    assert (
        "taskset apples-rewritten: 3 tasks, 2 lines set aside" in told
        and "1 refused: got no reply" in told
    )
    assert sum("has 7 " in asked_of(body) for body in service.asked) == 1


def test_error_names_the_invalid_option(serve, apples):
    service = serve(lambda body, n: "One.")
    assert refusal(service).startswith("no rewrite is left: ")
    assert refusal(service, "--per-task", "33") == "--per-task: must be from 1 to 32"
    assert refusal(service, "--limit", "0") == "--limit: must be 1 or more"
    assert refusal(service, "--temperature", "3").startswith("--temperature: ")
    assert "--name: taskset 'apples' already exists" in refusal(service, "--name", "apples")
