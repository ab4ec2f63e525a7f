from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("buffer", "0002_snapshots")]

    operations = [
        migrations.AddField(
            model_name="stepitem",
            name="advantage",
            field=models.FloatField(help_text="What it counted in this update; NULL: the experience's own advantage.", null=True),
        ),
        migrations.AddField(
            model_name="stepitem",
            name="token_advantages",
            field=models.BinaryField(help_text="float32 per completion token, where they differ.", null=True),
        ),
    ]
