"""The words of what rollouts say, so that they are found at once (apps.rollouts.words).

Built beside the traffic, for as long as that takes: minutes for a million rollouts. Full text search is part of PostgreSQL, no
extension is asked for. What an ended rollout says never changes, and rows that are being sampled are not in it: each costs one entry,
which `fastupdate` (the default) gathers with others. Its statistics are left out: they would have every ANALYZE part thousands of
texts, and a query that names a run and a part of it is always cheapest by the index.
"""

from django.db import migrations

CREATE = """
    CREATE INDEX CONCURRENTLY rollouts_by_words ON rollouts_rollout USING gin ((
        to_tsvector('simple', left(text, 100000)) || array_to_tsvector(
            ARRAY[' run ' || run_id::text, ' part ' || (id >> 12)::text])))
    WHERE state <> 'sampling'"""
WAIT = ["SET statement_timeout = 0", "SET lock_timeout = 0"]
USUAL = ["RESET statement_timeout", "RESET lock_timeout"]
DROP = "DROP INDEX CONCURRENTLY IF EXISTS rollouts_by_words"  # also what a build that was broken off has left


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("rollouts", "0015_dropped_groups")]
    operations = [
        migrations.RunSQL(
            [*WAIT, DROP, CREATE, "ALTER INDEX rollouts_by_words ALTER COLUMN 1 SET STATISTICS 0", *USUAL], [*WAIT, DROP, *USUAL]
        )
    ]
