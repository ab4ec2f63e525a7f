from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0003_experts_answers")]

    operations = [
        migrations.AddField(
            model_name="rollout",
            name="turns",
            field=models.JSONField(default=list, help_text="Who said what (apps.rollouts.turns); empty: one turn, the policy's."),
        ),
        migrations.AlterField(
            model_name="rollout",
            name="stop_reason",
            field=models.CharField(blank=True, help_text="stop, length, abort, what people did, or why it failed.", max_length=200),
        ),
    ]
