from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rollouts", "0012_failed_groups"),
    ]

    operations = [
        migrations.AlterField(
            model_name="group",
            name="closed_at",
            field=models.DateTimeField(help_text="Admitted, measured or dropped.", null=True),
        ),
        migrations.AlterField(
            model_name="group",
            name="state",
            field=models.CharField(
                choices=[
                    ("sampling", "Sampling"),
                    ("scoring", "Scoring"),
                    ("waiting", "waiting for people"),
                    ("judged", "Judged"),
                    ("admitted", "Admitted"),
                    ("measured", "evaluated"),
                    ("dropped", "Dropped"),
                ],
                default="sampling",
                max_length=8,
            ),
        ),
    ]
