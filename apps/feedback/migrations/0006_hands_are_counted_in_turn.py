"""How many items a person holds, counted while nobody else claims for the same person.

A statement sees what was committed when it began; each query of a volatile function sees what was committed when that query
began. So the count is taken after the lock was, within the one statement that claims.
"""

from django.db import migrations

COUNT_IN_TURN = """
    CREATE FUNCTION feedback_in_hand(person bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(1751215716, (person % 2147483648)::int);  -- 'hand'
        RETURN (SELECT count(*) FROM feedback_slot
                WHERE rater_id = person AND state = 'held' AND lease_until > statement_timestamp());
    END $$"""


class Migration(migrations.Migration):
    dependencies = [("feedback", "0005_one_index_of_ratings_by_run")]
    operations = [migrations.RunSQL(COUNT_IN_TURN, "DROP FUNCTION feedback_in_hand(bigint)")]
