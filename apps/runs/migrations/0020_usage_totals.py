import django.db.models.deletion
from django.db import migrations, models

# Each amount is its run's; an evaluation's is, besides, of the run whose version it asks. Rows are taken in one order, so that
# of two who count at once the one waits for the other, and not both.
KEPT = """
    WITH change AS ({changes})
    INSERT INTO runs_usagetotal AS known (run_id, kind, own, evaluations)
    SELECT run_id, kind, sum(own), sum(evaluations) FROM (
        SELECT run_id, kind, amount AS own, 0 AS evaluations FROM change
        UNION ALL
        SELECT version.run_id, kind, 0, amount FROM change
        JOIN runs_run asking ON asking.id = change.run_id JOIN runs_weightversion version ON version.id = asking.evaluates_id
    ) AS shared GROUP BY run_id, kind ORDER BY run_id, kind
    ON CONFLICT (run_id, kind) DO UPDATE
    SET own = known.own + EXCLUDED.own, evaluations = known.evaluations + EXCLUDED.evaluations"""
ADDED = KEPT.format(changes="SELECT run_id, kind, amount FROM now_there")
CHANGED = KEPT.format(changes="SELECT run_id, kind, amount FROM now_there UNION ALL SELECT run_id, kind, -amount FROM there_before")
SO_FAR = KEPT.format(changes="SELECT run_id, kind, amount FROM runs_usage")

TOTALS = f"""
    CREATE FUNCTION runs_total_usage() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN {ADDED};
        ELSE {CHANGED};
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER added_usage AFTER INSERT ON runs_usage REFERENCING NEW TABLE AS now_there
        FOR EACH STATEMENT EXECUTE FUNCTION runs_total_usage();
    CREATE TRIGGER changed_usage AFTER UPDATE ON runs_usage REFERENCING OLD TABLE AS there_before NEW TABLE AS now_there
        FOR EACH STATEMENT EXECUTE FUNCTION runs_total_usage()"""
NO_TOTALS = """
    DROP TRIGGER changed_usage ON runs_usage; DROP TRIGGER added_usage ON runs_usage; DROP FUNCTION runs_total_usage()"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0019_web_and_beat")]

    operations = [
        migrations.CreateModel(
            name="UsageTotal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=30)),
                ("own", models.FloatField()),
                ("evaluations", models.FloatField(help_text="Of all evaluations of its versions.")),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="usage_totals", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "kind"), name="one_total_of_a_kind")],
            },
        ),
        migrations.RunSQL(TOTALS, NO_TOTALS),
        migrations.RunSQL(SO_FAR, migrations.RunSQL.noop),
    ]
