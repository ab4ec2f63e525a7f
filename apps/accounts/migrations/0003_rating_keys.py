from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_make_the_cache_table")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="rating_keys",
            field=models.JSONField(
                blank=True, default=dict,
                help_text="Keys of the rating page this person moved, by action (apps.accounts.rating_keys).",
            ),
        ),
    ]  # fmt: skip
