from django.core.management import call_command
from django.db import migrations


def make_table(apps, schema_editor):
    """The table of settings.CACHES, unless it is there."""
    call_command("createcachetable", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]
    operations = [migrations.RunPython(make_table, migrations.RunPython.noop)]
