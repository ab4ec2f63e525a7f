"""Test data of rating_api.py: a run with any number of waiting items, and its raters."""

from dataclasses import dataclass

REPLIES_PER_GROUP = 4
WORDS = (
    "I am sorry that your parcel is late and I will trace it at once so that you know today where"
    " it is"
)
WORDS_PER_REPLY = 500


@dataclass(frozen=True)
class Rater:
    """An account with a browser's session: its cookies and its CSRF token."""

    pk: int
    cookie: str
    csrf: str


@dataclass(frozen=True)
class Stage:
    project: int
    taskset: int
    policy: int
    tasks: tuple[int, ...]
    raters: tuple[Rater, ...]


def furnish(accounts: int) -> Stage:
    """Create a project with a policy row, a small taskset, and signed-in raters."""
    from django.conf import settings
    from django.middleware.csrf import get_token
    from django.test import Client, RequestFactory

    from apps.accounts.models import Membership, Project, User
    from apps.policies.models import Policy
    from apps.tasksets.importing import generate

    project = Project.objects.create(slug="bench", title="Bench")
    generate(project, "tone", "tone", 200, 0)
    policy = Policy.objects.create(
        project=project,
        slug="tone",
        title="Tone",
        source="bench",
        folder="/nonexistent",
        fingerprint="0" * 16,
        architecture="Qwen3ForCausalLM",
        parameters=1,
        context_tokens=256,
    )
    raters = []
    for number in range(accounts):
        user = User.objects.create_user(f"rater-{number}")
        Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
        client = Client()
        request = RequestFactory().get("/")
        client.force_login(user)
        token = get_token(request)
        cookie = (
            f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        )
        raters.append(
            Rater(
                user.pk,
                f"{cookie}; {settings.CSRF_COOKIE_NAME}={request.META['CSRF_COOKIE']}",
                token,
            )
        )
    taskset = project.tasksets.get()
    return Stage(
        project.pk,
        taskset.pk,
        policy.pk,
        tuple(taskset.tasks.values_list("pk", flat=True)),
        tuple(raters),
    )


def new_run(stage: Stage, size: int) -> int:
    """Create a run with `size` waiting items, written by the database itself; return its id."""
    from django.db import connection

    from apps.accounts.models import Project
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    plan = parse_config(
        {
            "policy": "tone",
            "taskset": "tone",
            "steps": 10,
            "group_size": REPLIES_PER_GROUP,
            "groups_per_step": 4,
            "rewards": [{"scorer": "tone"}],
            "people": {"per_group": REPLIES_PER_GROUP, "deadline_s": 86_400, "open_claims": 3},
        }
    )
    run = Run.create(
        project=Project.objects.get(pk=stage.project),
        slug=f"items-{size}",
        title="Bench",
        plan=plan,
    )
    run.start()
    write_first_group(run, stage)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        for statement in COPY_GROUP:
            cursor.execute(
                statement,
                {"run": run.pk, "groups": size // REPLIES_PER_GROUP, "tasks": list(stage.tasks)},
            )
            cursor.execute("ANALYZE")  # the next statement joins the rows of this one
    return run.pk


def write_first_group(run, stage: Stage) -> None:
    """Write one group that waits for people, as the scorer leaves it; the others are copies."""
    from datetime import timedelta

    from django.db.models.functions import Now

    from apps.feedback.item_opening import open_items
    from apps.rollouts.models import Group, Rollout

    words = WORDS.split()
    text = " ".join(words[n % len(words)] for n in range(WORDS_PER_REPLY))
    group = Group.objects.create(
        run=run,
        draw_index=0,
        task_id=stage.tasks[0],
        size=REPLIES_PER_GROUP,
        state=Group.State.WAITING,
        opened_version=0,
        deadline_at=Now() + timedelta(days=1),
    )
    Rollout.objects.bulk_create(
        Rollout(
            run=run,
            group=group,
            sample_index=n,
            state=Rollout.State.FINISHED,
            text=text,
            stop_reason="stop",
            first_version=0,
            last_version=0,
            prompt_tokens=12,
            completion_tokens=640,
        )
        for n in range(REPLIES_PER_GROUP)
    )
    open_items([group])


def put_back(run: int) -> None:
    """Make all items wait again, for the next measurement."""
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in PUT_BACK:
            cursor.execute(statement, {"run": run})


PUT_BACK = (
    """WITH gone AS (DELETE FROM feedback_ratingreward tie USING feedback_rating said
                     WHERE said.id = tie.rating_id AND said.run_id = %(run)s
                         RETURNING tie.reward_id)
       DELETE FROM rewards_reward judged USING gone WHERE judged.id = gone.reward_id""",
    "DELETE FROM feedback_rating WHERE run_id = %(run)s",
    """UPDATE feedback_slot SET state = 'open', rater_id = NULL, lease_until = NULL
       WHERE run_id = %(run)s AND state IN ('held', 'done')""",
    "UPDATE feedback_item SET state = 'open' WHERE run_id = %(run)s AND state = 'done'",
    (
        "UPDATE rollouts_group SET state = 'waiting', judged_at = NULL WHERE run_id = %(run)s AND"
        " state = 'judged'"
    ),
)

# Copies of the rows of the first group, with new ids.
COPY_GROUP = (
    """INSERT INTO rollouts_group
       SELECT new.* FROM generate_series(1, %(groups)s - 1) n, rollouts_group first,
           LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('rollouts_group', 'id')),
               'draw_index', n,
               'task_id', (%(tasks)s::bigint[])[1 + n %% cardinality(%(tasks)s::bigint[])],
               'deadline_at', first.deadline_at + n * interval '1 ms')) new
       WHERE first.run_id = %(run)s AND first.draw_index = 0""",
    """INSERT INTO rollouts_rollout
       SELECT new.* FROM rollouts_group g
           JOIN rollouts_group f ON f.run_id = g.run_id AND f.draw_index = 0
           JOIN rollouts_rollout first
               ON first.group_id = f.id, LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('rollouts_rollout', 'id')),
               'group_id', g.id)) new
       WHERE g.run_id = %(run)s AND g.draw_index > 0""",
    """INSERT INTO feedback_item
       SELECT new.* FROM rollouts_group g JOIN rollouts_rollout r ON r.group_id = g.id
           JOIN feedback_item first ON first.id = (SELECT min(id)
               FROM feedback_item WHERE run_id = %(run)s),
           LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('feedback_item', 'id')),
               'group_id', g.id,
               'members', jsonb_build_array(r.id))) new
       WHERE g.run_id = %(run)s AND g.draw_index > 0""",
    """INSERT INTO feedback_slot
       SELECT new.* FROM feedback_item i JOIN rollouts_group g ON g.id = i.group_id
           JOIN feedback_slot first ON first.id = (SELECT min(id)
               FROM feedback_slot WHERE run_id = %(run)s),
           LATERAL jsonb_populate_record(first,
           jsonb_build_object('id', nextval(pg_get_serial_sequence('feedback_slot', 'id')),
               'item_id', i.id, 'group_id', g.id,
               'due_at', g.deadline_at)) new
       WHERE i.run_id = %(run)s AND g.draw_index > 0""",
    "UPDATE runs_run SET groups_opened = %(groups)s WHERE id = %(run)s",
)
