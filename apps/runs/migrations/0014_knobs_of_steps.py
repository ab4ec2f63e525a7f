from django.db import migrations, models

# Until now none of them could be changed on a run that had begun: what its configuration says, its steps were made with.
KNOWN = """
    UPDATE runs_trainstep s SET knobs = jsonb_build_object(
        'optimizer.learning_rate', coalesce(r.config #> '{optimizer,learning_rate}', '1e-4'),
        'sampling.temperature', coalesce(r.config #> '{sampling,temperature}', '1.0'),
        'algorithm.kl.coefficient', coalesce(r.config #> '{algorithm,kl,coefficient}', '0.0'),
        'algorithm.kl.target', coalesce(r.config #> '{algorithm,kl,target}', 'null'),
        'algorithm.kl.horizon', coalesce(r.config #> '{algorithm,kl,horizon}', '10000.0'))
    FROM runs_run r WHERE r.id = s.run_id AND r.state NOT IN ('stopped', 'completed')"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0013_spans_of_runs_that_are_there"),
    ]

    operations = [
        migrations.AddField(
            model_name="trainstep",
            name="knobs",
            field=models.JSONField(
                db_default={},
                default=dict,
                help_text="What it is made with, by dotted field of the configuration; fixed with its batch.",
            ),
        ),
        migrations.RunSQL(KNOWN, migrations.RunSQL.noop),
    ]
