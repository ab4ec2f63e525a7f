from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasksets", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="follow_ups",
            field=models.JSONField(default=list, help_text="What the user says after each answer of the policy: texts, in order."),
        ),
    ]
