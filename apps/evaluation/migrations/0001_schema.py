import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels

# A vote is history and is never changed. Deleting is left to those who empty the whole table.
NEVER_CHANGED = """
    CREATE FUNCTION evaluation_votes_stay() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a vote is never changed: say it anew'
                USING ERRCODE = 'restrict_violation';
        END $$;
    CREATE TRIGGER votes_stay BEFORE UPDATE ON evaluation_vote
        FOR EACH ROW EXECUTE FUNCTION evaluation_votes_stay()"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("runs", "0001_schema"),
        ("tasksets", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Arena",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="arenas",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "taskset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="tasksets.taskset",
                            ),
                        ),
                        ("title", models.CharField(help_text="Shown to raters.", max_length=100)),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "secret",
                            models.CharField(
                                help_text=(
                                    "Determines sides, order and names of pairs. "
                                    "Hidden from voters."
                                ),
                                max_length=64,
                            ),
                        ),
                        ("tasks", models.PositiveIntegerField()),
                        ("samples", models.PositiveSmallIntegerField()),
                        (
                            "again",
                            models.FloatField(
                                db_default=0.0,
                                help_text=(
                                    "Share of questions that repeat a judged pair while others "
                                    "have no vote yet."
                                ),
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "closed_at",
                            models.DateTimeField(help_text="When voting ended.", null=True),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["project", "-id"], name="arenas_of_a_project")
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("again__gte", 0), ("again__lte", 1)),
                                name="again_is_a_share",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Contestant",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "arena",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="contestants",
                                to="evaluation.arena",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="contests",
                                to="runs.run",
                            ),
                        ),
                        (
                            "place",
                            models.PositiveSmallIntegerField(
                                help_text="Order in which contestants were chosen, from 0."
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("arena", "place"), name="one_contestant_per_place"
                            ),
                            models.UniqueConstraint(
                                fields=("arena", "run"), name="one_contestant_per_evaluation"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Pairing",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "arena",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pairings",
                                to="evaluation.arena",
                            ),
                        ),
                        (
                            "first",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="evaluation.contestant",
                            ),
                        ),
                        (
                            "second",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="evaluation.contestant",
                            ),
                        ),
                        (
                            "size",
                            models.PositiveIntegerField(
                                help_text="Number of pairs that can be judged."
                            ),
                        ),
                        (
                            "same",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Number of pairs with identical answers. Nobody is asked about them."
                                )
                            ),
                        ),
                        (
                            "votes",
                            models.PositiveIntegerField(
                                db_default=0,
                                help_text="Number of valid votes; determines which pair is asked next.",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("first", "second"), name="one_pairing_per_two_contestants"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("first__lt", models.F("second"))),
                                name="a_pairing_has_an_order",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Vote",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "pairing",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="cast_votes",
                                to="evaluation.pairing",
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="tasksets.task",
                            ),
                        ),
                        ("sample_index", models.PositiveSmallIntegerField()),
                        (
                            "rater",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="votes",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "choice",
                            models.CharField(
                                choices=[
                                    ("first", "First"),
                                    ("second", "Second"),
                                    ("tie", "Tie"),
                                    ("bad", "both bad"),
                                    ("back", "withdrawn"),
                                ],
                                help_text="BAD counts as a tie; BACK withdraws the vote.",
                                max_length=6,
                            ),
                        ),
                        (
                            "first_on_left",
                            models.BooleanField(
                                help_text=(
                                    "Whether the first contestant was shown on the left (on "
                                    "narrow screens: on top)."
                                )
                            ),
                        ),
                        (
                            "client_uuid",
                            models.UUIDField(
                                help_text="Generated by the client; repeating it has no further effect."
                            ),
                        ),
                        (
                            "milliseconds",
                            models.PositiveIntegerField(
                                help_text="Time between showing the pair and the vote.", null=True
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["pairing", "task", "sample_index", "rater", "-id"],
                                name="votes_of_a_pair",
                            ),
                            models.Index(
                                fields=["rater", "pairing", "task", "sample_index", "-id"],
                                name="votes_of_a_person",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("rater", "client_uuid"), name="one_vote_per_client_uuid"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("choice__in", ["first", "second", "tie", "bad", "back"])
                                ),
                                name="a_vote_is_one_of_five",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EvaluationResult",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "run",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="result",
                                to="runs.run",
                            ),
                        ),
                        (
                            "metrics",
                            models.JSONField(
                                help_text="apps.evaluation.results.EvaluationMetrics, as JSON."
                            ),
                        ),
                        (
                            "by_task",
                            models.JSONField(
                                help_text=(
                                    "apps.evaluation.results.ByTask, as JSON; NULL "
                                    "for results without metrics per task."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "made_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                ),
            ]
        ),
        migrations.RunSQL(NEVER_CHANGED, "DROP FUNCTION evaluation_votes_stay() CASCADE"),
    ]
