from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("environments", "0009_people_have_a_time_of_their_own")]

    operations = [
        migrations.RemoveConstraint(model_name="episode", name="one_episode_per_key"),
        migrations.AddConstraint(
            model_name="episode",
            constraint=models.UniqueConstraint(
                condition=~Q(key="") & Q(run__isnull=False), fields=("run", "environment", "key"), name="one_episode_per_key"
            ),
        ),
        migrations.AddConstraint(
            model_name="episode",
            constraint=models.UniqueConstraint(
                condition=~Q(key="") & Q(run=None), fields=("environment", "key"), name="one_outside_episode_per_key"
            ),
        ),
    ]
