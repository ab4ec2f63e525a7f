"""Views of the schema `reporting`: the SQL and the description of each column; see docs/sql.md.

Names are stable: columns may be added, none is renamed or removed. When migrations change the
tables, the SQL here is adapted, and `making` recreates the views with the same columns.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    name: str
    kind: str  # PostgreSQL's type
    sql: str
    words: str


@dataclass(frozen=True)
class View:
    """A view; `source` is the SQL after FROM."""

    name: str
    words: str
    source: str
    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        chosen = ", ".join(
            f"({column.sql})::{column.kind} AS {column.name}" for column in self.columns
        )
        return f"SELECT {chosen} FROM {self.source}"


def view(name: str, words: str, source: str, *columns: tuple[str, str, str, str]) -> View:
    return View(name, words, source, tuple(Column(*column) for column in columns))


VIEWS = (
    view(
        "runs",
        "A training run of a policy, or an evaluation of one.",
        "runs_run run JOIN accounts_project project ON project.id = run.project_id "
        "JOIN policies_policy policy ON policy.id = run.policy_id "
        "LEFT JOIN tasksets_taskset taskset ON taskset.id = run.taskset_id "
        "LEFT JOIN accounts_user owner ON owner.id = run.owner_id",
        ("run_id", "bigint", "run.id", "Number of the run; the other views refer to it."),
        ("project", "text", "project.slug", "The project's slug."),
        ("run", "text", "run.slug", "The run's slug, unique within its project."),
        ("title", "text", "run.title", "Title of the run."),
        ("state", "text", "run.state", "created, running, paused, stopped or completed."),
        (
            "state_reason",
            "text",
            "run.state_reason",
            "Why it is in that state; empty if no reason was given.",
        ),
        ("algorithm", "text", "run.config #>> '{algorithm,name}'", "Name of its algorithm."),
        ("policy", "text", "policy.slug", "Policy that it started from."),
        (
            "taskset",
            "text",
            "taskset.slug",
            "Taskset that it samples from; NULL if it samples from several.",
        ),
        (
            "owner",
            "text",
            "owner.username",
            ("Account that created it; NULL if the account no longer exists."),
        ),
        ("config", "jsonb", "run.config", "Current configuration."),
        ("planned_steps", "bigint", "run.planned_steps", "Planned optimizer steps."),
        ("step", "bigint", "run.step", "Committed optimizer steps."),
        (
            "published_version",
            "bigint",
            "run.published_version",
            "Newest published weight version.",
        ),
        ("groups_opened", "bigint", "run.groups_opened", "Groups sampled."),
        ("groups_dropped", "bigint", "run.groups_dropped", "Groups dropped without training."),
        ("created_at", "timestamptz", "run.created_at", "When it was created."),
        ("started_at", "timestamptz", "run.started_at", "When it was started."),
        ("ended_at", "timestamptz", "run.ended_at", "When it was stopped or completed."),
        (
            "is_evaluation",
            "boolean",
            "run.is_evaluation",
            (
                "Whether it is an evaluation, which trains nothing and also has a row in "
                "`evaluations`."
            ),
        ),
    ),
    view(
        "steps",
        "An optimizer step.",
        "runs_trainstep step",
        ("run_id", "bigint", "step.run_id", "Of `runs`."),
        ("step", "bigint", "step.number", "From 1."),
        ("state", "text", "step.state", "planned or committed."),
        (
            "weight_version",
            "bigint",
            "step.version",
            "The trainer's weight version when the batch was taken.",
        ),
        (
            "skipped",
            "text",
            "step.skipped",
            "Why it did not change the weights (loss or gradient not finite); empty if it did.",
        ),
        ("planned_at", "timestamptz", "step.planned_at", "When its batch was fixed."),
        (
            "committed_at",
            "timestamptz",
            "step.committed_at",
            "When its weights were saved; NULL while it is planned.",
        ),
        ("seconds", "double precision", "step.seconds", "Seconds from planned to committed."),
    ),
    view(
        "metrics",
        "A metric of a step; never NaN or infinite.",
        "runs_metric metric LEFT JOIN runs_trainstep step ON step.run_id = metric.run_id AND"
        " step.number = metric.step",
        ("run_id", "bigint", "metric.run_id", "Of `runs`."),
        ("step", "bigint", "metric.step", "Of `steps`."),
        (
            "weight_version",
            "bigint",
            "step.version",
            "The trainer's weight version when the step's batch was taken.",
        ),
        (
            "name",
            "text",
            "metric.name",
            "Such as reward_mean, kl, entropy, staleness, step_seconds.",
        ),
        ("value", "double precision", "metric.value", "Value, in the unit of the metric."),
        ("at", "timestamptz", "metric.at", "When it was written."),
    ),
    view(
        "rollouts",
        "An attempt at a task.",
        "rollouts_rollout rollout JOIN rollouts_group drawn ON drawn.id = rollout.group_id JOIN"
        " tasksets_task task ON task.id = drawn.task_id JOIN tasksets_taskset taskset ON taskset.id"
        " = task.taskset_id",
        (
            "rollout_id",
            "bigint",
            "rollout.id",
            ("Number of the rollout; its page is `/rollouts/<number>/`."),
        ),
        ("run_id", "bigint", "rollout.run_id", "Of `runs`."),
        (
            "group_id",
            "bigint",
            "rollout.group_id",
            "Group of the rollouts that were sampled together for one task.",
        ),
        (
            "draw",
            "bigint",
            "drawn.draw_index",
            "Number of the group's task in the order of sampling; NULL for expert rows.",
        ),
        (
            "group_state",
            "text",
            "drawn.state",
            "sampling, scoring, waiting (for people), judged, admitted or dropped.",
        ),
        ("group_reason", "text", "drawn.reason", "Why the group was dropped; empty if it was not."),
        ("taskset", "text", "taskset.slug", "Taskset of the task."),
        ("task", "bigint", "task.index", "Index of the task in its taskset."),
        ("sample", "bigint", "rollout.sample_index", "Place in the group, from 0."),
        ("origin", "text", "rollout.origin", "policy, expert or synthetic."),
        ("state", "text", "rollout.state", "sampling, finished or failed."),
        (
            "stop_reason",
            "text",
            "rollout.stop_reason",
            "stop, length, abort, an intervention, or the error.",
        ),
        (
            "text",
            "text",
            "rollout.text",
            "Text of the reply, decoded from its tokens.",
        ),
        ("prompt_tokens", "bigint", "rollout.prompt_tokens", "Tokens of the prompt."),
        ("completion_tokens", "bigint", "rollout.completion_tokens", "Tokens of the reply."),
        (
            "first_version",
            "bigint",
            "rollout.first_version",
            "Oldest weight version that sampled one of its tokens.",
        ),
        (
            "last_version",
            "bigint",
            "rollout.last_version",
            ("Newest weight version that sampled one of its tokens."),
        ),
        ("started_at", "timestamptz", "rollout.started_at", "When its group was opened."),
        (
            "finished_at",
            "timestamptz",
            "rollout.finished_at",
            "When it ended; NULL while it is being sampled.",
        ),
    ),
    view(
        "rewards",
        "A reward from one scorer or person.",
        "rewards_reward reward JOIN rollouts_rollout rollout ON rollout.id = reward.rollout_id "
        "LEFT JOIN accounts_user person ON person.id = reward.by_id",
        ("reward_id", "bigint", "reward.id", "Number of the reward."),
        ("run_id", "bigint", "rollout.run_id", "Of `runs`."),
        ("rollout_id", "bigint", "reward.rollout_id", "Of `rollouts`."),
        ("source", "text", "reward.source", "rule, model, environment or human."),
        ("scorer", "text", "reward.scorer", "Name of the scorer or rating type."),
        (
            "value",
            "double precision",
            "reward.value",
            "Value of the reward; if NULL, `reason` says why.",
        ),
        ("reason", "text", "reward.reason", "Why there is no value."),
        (
            "uncertainty",
            "double precision",
            "reward.uncertainty",
            "Standard error of the value, if known.",
        ),
        ("by", "text", "person.username", "Account of the rater; NULL for machines."),
        (
            "is_simulated",
            "boolean",
            "coalesce(person.is_simulated, false) OR reward.details ? 'is_simulated'",
            "Whether only the simulated rater gave it, not a person.",
        ),
        (
            "is_current",
            "boolean",
            "reward.is_current",
            "Whether it is the newest from the same scorer or person.",
        ),
        (
            "is_late",
            "boolean",
            "reward.details ? 'is_late'",
            "Whether it came after the group was closed: stored, but not trained on.",
        ),
        (
            "seconds",
            "double precision",
            "reward.seconds",
            "Seconds that scoring took, if measured.",
        ),
        ("at", "timestamptz", "reward.at", "When it was given."),
    ),
    view(
        "ratings",
        "A rating by a person, including ratings that were replaced or undone.",
        "feedback_rating rating JOIN accounts_user rater ON rater.id = rating.rater_id",
        (
            "rating_id",
            "bigint",
            "rating.id",
            ("Number of the rating; its page is `/ratings/<number>/`."),
        ),
        ("run_id", "bigint", "rating.run_id", "Of `runs`."),
        (
            "rollout_id",
            "bigint",
            "rating.rollout_id",
            "Number in `rollouts`; NULL if several were compared: see `shown`.",
        ),
        ("shown", "bigint[]", "rating.shown", "Rollouts in the order in which they were shown."),
        ("rater", "text", "rater.username", "Account of the rater."),
        (
            "is_simulated",
            "boolean",
            "rater.is_simulated",
            "Whether the rater is the simulated rater.",
        ),
        ("form", "text", "rating.form", "stars, thumbs, ranking, pairwise and so on."),
        ("answer", "jsonb", "rating.answer", "The rating, in the format of its form."),
        ("critique", "text", "rating.critique", "Reason in words; may be empty."),
        (
            "replaces",
            "bigint",
            "rating.replaces_id",
            "Earlier rating of the same person that it replaces.",
        ),
        (
            "is_current",
            "boolean",
            "rating.is_current",
            "Whether it is the person's newest rating.",
        ),
        (
            "is_withdrawn",
            "boolean",
            "rating.is_withdrawn",
            "Whether it only undoes the rating that it replaces.",
        ),
        (
            "is_late",
            "boolean",
            "rating.is_late",
            "Whether its group was already closed: stored, but not trained on.",
        ),
        (
            "seconds",
            "double precision",
            "rating.seconds",
            "Seconds in a visible tab until the rating.",
        ),
        ("at", "timestamptz", "rating.at", "When it was given."),
    ),
    view(
        "experiences",
        "A rollout with its advantage, ready for training or trained.",
        "buffer_experience experience",
        ("experience_id", "bigint", "experience.id", "Number of the experience."),
        ("run_id", "bigint", "experience.run_id", "Of `runs`."),
        ("group_id", "bigint", "experience.group_id", "Of `rollouts`."),
        ("rollout_id", "bigint", "experience.rollout_id", "Of `rollouts`."),
        ("kind", "text", "experience.kind", "usual, expert or synthetic."),
        ("state", "text", "experience.state", "ready, claimed, trained or dropped."),
        ("reason", "text", "experience.reason", "Why it was dropped or is not used again."),
        (
            "reward",
            "double precision",
            "experience.reward",
            "Combined reward at admission; NULL for expert rows.",
        ),
        (
            "advantage",
            "double precision",
            "experience.advantage",
            "Advantage: its reward relative to the group's, as the algorithm computes it.",
        ),
        (
            "weight_version",
            "bigint",
            "experience.weight_version",
            "Oldest weight version that sampled one of its tokens.",
        ),
        ("uses", "bigint", "experience.uses", "Number of committed steps that used it."),
        ("created_at", "timestamptz", "experience.created_at", "When it was admitted."),
    ),
    view(
        "weight_versions",
        "A set of weights of a run.",
        "runs_weightversion version LEFT JOIN runs_weightversion parent ON parent.id ="
        " version.parent_id",
        ("run_id", "bigint", "version.run_id", "Of `runs`."),
        (
            "version",
            "bigint",
            "version.version",
            ("0 is the base model; increases by one with each publication."),
        ),
        (
            "parent_version",
            "bigint",
            "parent.version",
            "Version that it was trained from, if known.",
        ),
        ("step", "bigint", "version.step", "Step after which it was saved."),
        (
            "state",
            "text",
            "version.state",
            "staged, verified, published, retired (its files are deleted) or refused.",
        ),
        ("reason", "text", "version.reason", "Why it was refused."),
        (
            "fingerprint",
            "text",
            "version.fingerprint",
            "Checksum of the weights; engines report it when they serve them.",
        ),
        ("bytes", "bigint", "version.bytes", "Size of its files."),
        (
            "engines",
            "bigint",
            (
                "SELECT count(*) FROM runs_acknowledgement word WHERE word.weight_version_id ="
                " version.id"
            ),
            "Number of engines that reported serving it.",
        ),
        ("staged_at", "timestamptz", "version.staged_at", "When it was written."),
        ("verified_at", "timestamptz", "version.verified_at", "When it was verified."),
        ("published_at", "timestamptz", "version.published_at", "When it was published."),
    ),
    view(
        "evaluations",
        "An evaluation of a weight version: each task once.",
        "runs_run evaluation LEFT JOIN runs_weightversion version ON version.id ="
        " evaluation.evaluates_id LEFT JOIN tasksets_taskset taskset ON taskset.id ="
        " evaluation.taskset_id LEFT JOIN evaluation_evaluationresult result ON result.run_id ="
        " evaluation.id WHERE evaluation.is_evaluation",
        (
            "evaluation_id",
            "bigint",
            "evaluation.id",
            "Number of the evaluation; it is also a run, with this `run_id`.",
        ),
        (
            "run_id",
            "bigint",
            "coalesce(version.run_id, evaluation.id)",
            (
                "Run in `runs` whose version is evaluated; the evaluation itself for an untrained "
                "policy."
            ),
        ),
        (
            "weight_version",
            "bigint",
            "coalesce(version.version, 0)",
            "Evaluated weight version.",
        ),
        ("taskset", "text", "taskset.slug", "Taskset of its tasks."),
        (
            "question_set",
            "text",
            "evaluation.evaluation_set",
            "Same value for evaluations with the same questions: samples, temperature, scorers.",
        ),
        ("state", "text", "evaluation.state", "created, running, paused, stopped or completed."),
        (
            "samples_per_task",
            "bigint",
            "evaluation.config #>> '{group_size}'",
            "Replies to each task.",
        ),
        (
            "tasks",
            "bigint",
            "result.metrics ->> 'tasks'",
            "Number of tasks; like the columns below, NULL until the evaluation is complete.",
        ),
        ("samples", "bigint", "result.metrics ->> 'samples'", "Requested replies."),
        (
            "judged",
            "bigint",
            "result.metrics ->> 'judged'",
            "Replies with a reward; scores use only these.",
        ),
        (
            "unjudged",
            "bigint",
            "result.metrics ->> 'unjudged'",
            "Replies without a reward; they do not count as wrong.",
        ),
        ("failed", "bigint", "result.metrics ->> 'failed'", "Replies that failed."),
        ("created_at", "timestamptz", "evaluation.created_at", "When it was created."),
        ("summed_up_at", "timestamptz", "result.made_at", "When its scores were computed."),
    ),
    view(
        "evaluation_metrics",
        "A score of a complete evaluation: the mean over its tasks.",
        "evaluation_evaluationresult result"
        " JOIN runs_run evaluation ON evaluation.id = result.run_id"
        " LEFT JOIN runs_weightversion version ON version.id = evaluation.evaluates_id CROSS JOIN"
        " LATERAL jsonb_each(result.metrics -> 'metrics') measured (name, by_k) CROSS JOIN LATERAL"
        " jsonb_each(measured.by_k) metric (k, told)",
        ("evaluation_id", "bigint", "evaluation.id", "Of `evaluations`."),
        (
            "run_id",
            "bigint",
            "coalesce(version.run_id, evaluation.id)",
            ("Run in `runs`, as in `evaluations`."),
        ),
        ("weight_version", "bigint", "coalesce(version.version, 0)", "Evaluated weight version."),
        (
            "question_set",
            "text",
            "evaluation.evaluation_set",
            "Same value for evaluations with the same questions, which can be compared.",
        ),
        ("measure", "text", "measured.name", "pass, mean, best, worst or maj."),
        ("k", "bigint", "metric.k", "Number of replies per task (k)."),
        (
            "value",
            "double precision",
            "metric.told ->> 0",
            "Value of the score; NULL if no task has enough scored replies.",
        ),
        ("low", "double precision", "metric.told ->> 1", "Lower end of the 95% interval."),
        ("high", "double precision", "metric.told ->> 2", "Upper end of the interval."),
        ("tasks", "bigint", "metric.told ->> 3", "Number of tasks with this score."),
    ),
)
