from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0002_policies_that_see")]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="licence",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Of the model, as what it came from says; empty where it does not.",
                max_length=200,
            ),
            preserve_default=False,
        )
    ]
