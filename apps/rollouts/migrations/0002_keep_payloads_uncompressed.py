"""Token ids and logprobs do not compress; storing them as they are reads and writes several times faster."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE rollouts_rolloutpayload ALTER COLUMN data SET STORAGE EXTERNAL",
            "ALTER TABLE rollouts_rolloutpayload ALTER COLUMN data SET STORAGE EXTENDED",
        )
    ]
