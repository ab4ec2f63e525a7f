from django.db import migrations, models

# Who has been here before has found the pages without it.
NEVER_HERE = "UPDATE accounts_user SET tour_step = 1 WHERE last_login IS NULL"


class Migration(migrations.Migration):
    dependencies = [("accounts", "0006_tour")]

    operations = [
        migrations.AlterField(
            model_name="user",
            name="tour_step",
            field=models.PositiveSmallIntegerField(
                db_default=1,
                default=1,
                help_text="The step of the tour that this person takes next, where the demo's run is to be seen; 0: none.",
            ),
        ),
        migrations.RunSQL(NEVER_HERE, migrations.RunSQL.noop),
    ]
