from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="sees_pictures",
            field=models.BooleanField(default=False, help_text="Whether tasks may show it pictures."),
        )
    ]
