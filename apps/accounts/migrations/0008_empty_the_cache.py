from django.db import migrations


class Migration(migrations.Migration):
    """What was kept there is pickled; values are JSON from now on. It is made anew: attempts to sign in, figures under way."""

    dependencies = [("accounts", "0007_tour_of_a_first_visit")]
    operations = [migrations.RunSQL("DELETE FROM cache_entry", migrations.RunSQL.noop)]
