import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

# A vote is history: what a person said is not said otherwise later. (Deleting is left to whoever empties the whole table.)
NEVER_CHANGED = """
    CREATE FUNCTION feedback_votes_stay() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'a vote is never changed: say it anew' USING ERRCODE = 'restrict_violation'; END $$;
    CREATE TRIGGER votes_stay BEFORE UPDATE ON feedback_vote FOR EACH ROW EXECUTE FUNCTION feedback_votes_stay()"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_tour"),
        ("feedback", "0011_figures_of_each_task"),
        ("runs", "0017_what_workers_tell"),
        ("tasksets", "0013_tasks_name_their_parents"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Arena",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(help_text="Read by those who judge.", max_length=100)),
                (
                    "secret",
                    models.CharField(
                        help_text="Decides sides, orders and names of pairs; whoever knows it is not blind.", max_length=64
                    ),
                ),
                ("tasks", models.PositiveIntegerField()),
                ("samples", models.PositiveSmallIntegerField()),
                (
                    "again",
                    models.FloatField(
                        db_default=0.0, help_text="Share of questions that ask for a second opinion while some have none."
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("closed_at", models.DateTimeField(help_text="Since when nobody votes in it.", null=True)),
                (
                    "by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="arenas", to="accounts.project"),
                ),
                (
                    "taskset",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tasksets.taskset"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Contestant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("place", models.PositiveSmallIntegerField(help_text="From 0, as they were chosen.")),
                (
                    "arena",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="contestants", to="feedback.arena"
                    ),
                ),
                ("run", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="contests", to="runs.run")),
            ],
        ),
        migrations.CreateModel(
            name="Pairing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("size", models.PositiveIntegerField(help_text="Pairs that can be judged.")),
                (
                    "same",
                    models.PositiveIntegerField(
                        help_text="Pairs whose two answers are the same words: nobody is asked about them."
                    ),
                ),
                ("votes", models.PositiveIntegerField(db_default=0, help_text="That stand: what is asked next goes by it.")),
                (
                    "arena",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="pairings", to="feedback.arena"),
                ),
                (
                    "first",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="feedback.contestant"
                    ),
                ),
                (
                    "second",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="feedback.contestant"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Vote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sample_index", models.PositiveSmallIntegerField()),
                (
                    "choice",
                    models.CharField(
                        choices=[
                            ("first", "First"),
                            ("second", "Second"),
                            ("tie", "Tie"),
                            ("bad", "both bad"),
                            ("back", "taken back"),
                        ],
                        help_text="BAD counts as a tie; BACK takes the vote back.",
                        max_length=6,
                    ),
                ),
                (
                    "first_on_left",
                    models.BooleanField(help_text="Which side the pairing's first was shown on; on a narrow screen, above."),
                ),
                ("client_uuid", models.UUIDField(help_text="Made by the sender; the same vote sent twice is one vote.")),
                ("milliseconds", models.PositiveIntegerField(help_text="The pair was looked at until the vote.", null=True)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "pairing",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="said", to="feedback.pairing"
                    ),
                ),
                (
                    "rater",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="votes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("task", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tasksets.task")),
            ],
        ),
        migrations.AddIndex(
            model_name="arena",
            index=models.Index(fields=["project", "-id"], name="arenas_of_a_project"),
        ),
        migrations.AddConstraint(
            model_name="arena",
            constraint=models.CheckConstraint(condition=models.Q(("again__gte", 0), ("again__lte", 1)), name="again_is_a_share"),
        ),
        migrations.AddConstraint(
            model_name="contestant",
            constraint=models.UniqueConstraint(fields=("arena", "place"), name="one_contestant_per_place"),
        ),
        migrations.AddConstraint(
            model_name="contestant",
            constraint=models.UniqueConstraint(fields=("arena", "run"), name="one_contestant_per_evaluation"),
        ),
        migrations.AddConstraint(
            model_name="pairing",
            constraint=models.UniqueConstraint(fields=("first", "second"), name="one_pairing_per_two_contestants"),
        ),
        migrations.AddConstraint(
            model_name="pairing",
            constraint=models.CheckConstraint(condition=models.Q(("first__lt", models.F("second"))), name="a_pairing_has_an_order"),
        ),
        migrations.AddIndex(
            model_name="vote",
            index=models.Index(fields=["pairing", "task", "sample_index", "rater", "-id"], name="votes_of_a_pair"),
        ),
        migrations.AddIndex(
            model_name="vote",
            index=models.Index(fields=["rater", "pairing", "task", "sample_index", "-id"], name="votes_of_a_person"),
        ),
        migrations.AddConstraint(
            model_name="vote",
            constraint=models.UniqueConstraint(fields=("rater", "client_uuid"), name="one_vote_per_client_uuid"),
        ),
        migrations.AddConstraint(
            model_name="vote",
            constraint=models.CheckConstraint(
                condition=models.Q(("choice__in", ["first", "second", "tie", "bad", "back"])), name="a_vote_is_one_of_five"
            ),
        ),
        migrations.RunSQL(NEVER_CHANGED, "DROP FUNCTION feedback_votes_stay() CASCADE"),
    ]
