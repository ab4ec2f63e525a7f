"""Mark what raters say together where the simulated rater gave some or all of its ratings."""

from django.db import migrations

MARK = """
    UPDATE rewards_reward reward
    SET details = reward.details || jsonb_build_object('simulated_ratings', known.simulated)
        || CASE WHEN known.simulated = jsonb_array_length(reward.details -> 'ratings')
                THEN '{"is_simulated": true}'::jsonb ELSE '{}'::jsonb END
    FROM (
        SELECT made.id, count(*) AS simulated
        FROM rewards_reward made
        CROSS JOIN LATERAL jsonb_array_elements_text(made.details -> 'ratings') AS one (rating)
        JOIN feedback_rating rating ON rating.id = one.rating::bigint
        JOIN accounts_user rater ON rater.id = rating.rater_id
        WHERE made.source = 'human' AND made.by_id IS NULL AND rater.is_simulated
            AND jsonb_typeof(made.details -> 'ratings') = 'array'
        GROUP BY made.id) known
    WHERE known.id = reward.id"""


class Migration(migrations.Migration):
    dependencies = [("feedback", "0012_arenas"), ("rewards", "0005_rescorings")]
    operations = [migrations.RunSQL(MARK, migrations.RunSQL.noop)]
