"""Make calibrations that counted simulated ratings anew: they look older than any rating."""

from django.db import migrations

OUTDATE = """
    UPDATE feedback_calibration SET last_rating = 0, figures = figures - 'simulated'
    WHERE run_id IN (
        SELECT run_id FROM feedback_calibration WHERE (figures ->> 'simulated')::int > 0)"""


class Migration(migrations.Migration):
    dependencies = [("feedback", "0013_say_which_rewards_are_simulated")]
    operations = [migrations.RunSQL(OUTDATE, migrations.RunSQL.noop)]
