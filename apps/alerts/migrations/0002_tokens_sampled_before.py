"""Tokens of replies that were finished before they were counted: by run and hour, as no worker's."""

from django.db import migrations

COUNT = """
    INSERT INTO runs_usage (run_id, kind, worker, hour, amount)
    SELECT r.run_id, kind, '', date_trunc('hour', r.finished_at, 'UTC'), sum(n)
    FROM rollouts_rollout r, LATERAL (
        VALUES ('tokens.sampled', r.completion_tokens), ('tokens.prompts', r.prompt_tokens)) AS said(kind, n)
    WHERE r.state = 'finished' AND r.origin = 'policy' AND r.finished_at IS NOT NULL AND n > 0
      AND NOT EXISTS (SELECT FROM buffer_recorded c WHERE c.group_id = r.group_id)
      AND NOT EXISTS (SELECT FROM buffer_seed s WHERE s.group_id = r.group_id)
      AND NOT EXISTS (SELECT FROM environments_episode e WHERE e.rollout_id = r.id AND e.origin <> '{}'::jsonb)
    GROUP BY 1, 2, 4
    ON CONFLICT DO NOTHING"""


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0001_initial"),
        ("buffer", "0009_rollouts_made_of_others"),
        ("environments", "0009_people_have_a_time_of_their_own"),
        ("rollouts", "0012_failed_groups"),
        ("runs", "0010_what_runs_use"),
    ]

    operations = [migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
