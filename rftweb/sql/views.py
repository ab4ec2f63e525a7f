"""The views of the schema `desk`: each column with the SQL that it is, and what it means. docs/sql.md says the same.

Names stay: a column may be added, none is renamed or taken away. Tables behind them change with migrations; then the SQL here
changes, and `making` puts the views back as they were.
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
    """`source`: what follows FROM."""

    name: str
    words: str
    source: str
    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        chosen = ", ".join(f"({column.sql})::{column.kind} AS {column.name}" for column in self.columns)
        return f"SELECT {chosen} FROM {self.source}"


def view(name: str, words: str, source: str, *columns: tuple[str, str, str, str]) -> View:
    return View(name, words, source, tuple(Column(*column) for column in columns))


VIEWS = (
    view(
        "runs", "A training of a policy, or an evaluation of one, from its plan to its end.",
        "runs_run run JOIN accounts_project project ON project.id = run.project_id "
        "JOIN policies_policy policy ON policy.id = run.policy_id "
        "LEFT JOIN tasksets_taskset taskset ON taskset.id = run.taskset_id "
        "LEFT JOIN accounts_user owner ON owner.id = run.owner_id",
        ("run_id", "bigint", "run.id", "Its number; every other view has it."),
        ("project", "text", "project.slug", "The project's slug."),
        ("run", "text", "run.slug", "The run's slug, unique within its project."),
        ("title", "text", "run.title", "What people call it."),
        ("state", "text", "run.state", "created, running, paused, stopped or completed."),
        ("state_reason", "text", "run.state_reason", "Why it is in that state; empty: no reason was given."),
        ("algorithm", "text", "run.config #>> '{algorithm,name}'", "Name of what it learns by."),
        ("policy", "text", "policy.slug", "Whose weights it began with."),
        ("taskset", "text", "taskset.slug", "What it draws from; NULL where it draws from several."),
        ("owner", "text", "owner.username", "Who made it; NULL: nobody who is still here."),
        ("config", "jsonb", "run.config", "Its configuration as it is now."),
        ("planned_steps", "bigint", "run.planned_steps", "Optimiser updates it is to make."),
        ("step", "bigint", "run.step", "Optimiser updates committed."),
        ("published_version", "bigint", "run.published_version", "Newest weight version that was offered to engines."),
        ("groups_opened", "bigint", "run.groups_opened", "Groups drawn."),
        ("groups_dropped", "bigint", "run.groups_dropped", "Groups closed untrained."),
        ("created_at", "timestamptz", "run.created_at", "When it was made."),
        ("started_at", "timestamptz", "run.started_at", "When it was started."),
        ("ended_at", "timestamptz", "run.ended_at", "When it was stopped or completed."),
        ("is_evaluation", "boolean", "run.is_evaluation", "It learns nothing: a row of `evaluations`, too. The others train."),
    ),
    view(
        "steps", "An optimiser update.", "runs_trainstep step",
        ("run_id", "bigint", "step.run_id", "Of `runs`."),
        ("step", "bigint", "step.number", "From 1."),
        ("state", "text", "step.state", "planned or committed."),
        ("weight_version", "bigint", "step.version", "The trainer's weights when the batch was taken."),
        ("skipped", "text", "step.skipped", "Why it changed no weights (loss or gradient not finite); empty: it did."),
        ("planned_at", "timestamptz", "step.planned_at", "When its batch was fixed."),
        ("committed_at", "timestamptz", "step.committed_at", "When its weights were kept; NULL while it is planned."),
        ("seconds", "double precision", "step.seconds", "From planned to committed."),
    ),
    view(
        "metrics", "A figure of a step. There is no NaN and no infinity.",
        "runs_metric metric LEFT JOIN runs_trainstep step ON step.run_id = metric.run_id AND step.number = metric.step",
        ("run_id", "bigint", "metric.run_id", "Of `runs`."),
        ("step", "bigint", "metric.step", "Of `steps`."),
        ("weight_version", "bigint", "step.version", "The trainer's weights when the step's batch was taken."),
        ("name", "text", "metric.name", "Such as reward_mean, kl, entropy, staleness, step_seconds."),
        ("value", "double precision", "metric.value", "In the figure's own unit."),
        ("at", "timestamptz", "metric.at", "When it was written."),
    ),
    view(
        "rollouts", "An attempt at a task.",
        "rollouts_rollout rollout JOIN rollouts_group drawn ON drawn.id = rollout.group_id "
        "JOIN tasksets_task task ON task.id = drawn.task_id JOIN tasksets_taskset taskset ON taskset.id = task.taskset_id",
        ("rollout_id", "bigint", "rollout.id", "Its number; `/rollouts/<number>/` is its page."),
        ("run_id", "bigint", "rollout.run_id", "Of `runs`."),
        ("group_id", "bigint", "rollout.group_id", "Rollouts of one group were drawn together for one task."),
        ("draw", "bigint", "drawn.draw_index", "The how-manieth draw of the run the group is; NULL: experts' answers."),
        ("group_state", "text", "drawn.state", "sampling, scoring, waiting (for people), judged, admitted or dropped."),
        ("group_reason", "text", "drawn.reason", "Why the group was dropped; empty: it was not."),
        ("taskset", "text", "taskset.slug", "The task's taskset."),
        ("task", "bigint", "task.index", "The task's number in its taskset."),
        ("sample", "bigint", "rollout.sample_index", "Its place in the group, from 0."),
        ("origin", "text", "rollout.origin", "policy, expert or synthetic."),
        ("state", "text", "rollout.state", "sampling, finished or failed."),
        ("stop_reason", "text", "rollout.stop_reason", "stop, length, abort, what people did, or why it failed."),
        ("text", "text", "rollout.text", "What was said; token ids are the truth, this is their rendering."),
        ("prompt_tokens", "bigint", "rollout.prompt_tokens", "Tokens asked."),
        ("completion_tokens", "bigint", "rollout.completion_tokens", "Tokens answered."),
        ("first_version", "bigint", "rollout.first_version", "Oldest weight version that sampled a token of it."),
        ("last_version", "bigint", "rollout.last_version", "Newest one."),
        ("started_at", "timestamptz", "rollout.started_at", "When its group was opened."),
        ("finished_at", "timestamptz", "rollout.finished_at", "When it ended; NULL while it is sampled."),
    ),
    view(
        "rewards", "What one scorer or person said of a rollout.",
        "rewards_reward reward JOIN rollouts_rollout rollout ON rollout.id = reward.rollout_id "
        "LEFT JOIN accounts_user person ON person.id = reward.by_id",
        ("reward_id", "bigint", "reward.id", "Its number."),
        ("run_id", "bigint", "rollout.run_id", "Of `runs`."),
        ("rollout_id", "bigint", "reward.rollout_id", "Of `rollouts`."),
        ("source", "text", "reward.source", "rule, model, environment or human."),
        ("scorer", "text", "reward.scorer", "By what name it judged."),
        ("value", "double precision", "reward.value", "NULL where there is none: then `reason` says why."),
        ("reason", "text", "reward.reason", "Why there is no value."),
        ("uncertainty", "double precision", "reward.uncertainty", "Standard error of the value, where it is known."),
        ("by", "text", "person.username", "Whose word it is; NULL of machines."),
        (
            "is_simulated", "boolean",
            "coalesce(person.is_simulated, false) OR reward.details ? 'is_simulated'",
            "Whether the simulated rater alone said it, not a person.",
        ),
        ("is_current", "boolean", "reward.is_current", "Whether nothing newer was said by the same."),
        ("is_late", "boolean", "reward.details ? 'is_late'", "Whether it came when the group was closed: kept, not trained on."),
        ("seconds", "double precision", "reward.seconds", "How long the judgement took, where it was measured."),
        ("at", "timestamptz", "reward.at", "When it was said."),
    ),
    view(
        "ratings", "A decision of a person; what was replaced or taken back stays.",
        "feedback_rating rating JOIN accounts_user rater ON rater.id = rating.rater_id",
        ("rating_id", "bigint", "rating.id", "Its number; `/ratings/<number>/` is its page."),
        ("run_id", "bigint", "rating.run_id", "Of `runs`."),
        ("rollout_id", "bigint", "rating.rollout_id", "Of `rollouts`; NULL where several were compared: `shown`."),
        ("shown", "bigint[]", "rating.shown", "The rollouts in the order in which they were seen."),
        ("rater", "text", "rater.username", "Who said it."),
        ("is_simulated", "boolean", "rater.is_simulated", "Whether the rater is a program that stands in for a person."),
        ("form", "text", "rating.form", "stars, thumbs, ranking, pairwise and so on."),
        ("answer", "jsonb", "rating.answer", "What was decided, as the form writes it."),
        ("critique", "text", "rating.critique", "In words; may be empty."),
        ("replaces", "bigint", "rating.replaces_id", "The rating of the same person that it replaces."),
        ("is_current", "boolean", "rating.is_current", "Whether the same person said nothing newer."),
        ("is_withdrawn", "boolean", "rating.is_withdrawn", "Whether it only takes back the one it replaces."),
        ("is_late", "boolean", "rating.is_late", "Whether its group was closed already: kept, not trained on."),
        ("seconds", "double precision", "rating.seconds", "Time in a visible tab until the decision."),
        ("at", "timestamptz", "rating.at", "When it was said."),
    ),
    view(
        "experiences", "What of a rollout can be learned from, or was.", "buffer_experience experience",
        ("experience_id", "bigint", "experience.id", "Its number."),
        ("run_id", "bigint", "experience.run_id", "Of `runs`."),
        ("group_id", "bigint", "experience.group_id", "Of `rollouts`."),
        ("rollout_id", "bigint", "experience.rollout_id", "Of `rollouts`."),
        ("kind", "text", "experience.kind", "usual, expert or synthetic."),
        ("state", "text", "experience.state", "ready, claimed, trained or dropped."),
        ("reason", "text", "experience.reason", "Why it was dropped, or is not taken again."),
        ("reward", "double precision", "experience.reward", "The combined reward at admission; NULL: an expert's, not judged."),
        ("advantage", "double precision", "experience.advantage", "Its reward against its group's, as the algorithm reckons."),
        ("weight_version", "bigint", "experience.weight_version", "Oldest version that sampled a token of it."),
        ("uses", "bigint", "experience.uses", "Committed updates that trained on it."),
        ("created_at", "timestamptz", "experience.created_at", "When it was admitted."),
    ),
    view(
        "weight_versions", "A set of weights of a run.",
        "runs_weightversion version LEFT JOIN runs_weightversion parent ON parent.id = version.parent_id",
        ("run_id", "bigint", "version.run_id", "Of `runs`."),
        ("version", "bigint", "version.version", "0 is the base; rises by one per publish."),
        ("parent_version", "bigint", "parent.version", "The one that it was trained from, where it is on record."),
        ("step", "bigint", "version.step", "The update after which it was taken."),
        ("state", "text", "version.state", "staged, verified, published, retired (its folder is gone) or refused."),
        ("reason", "text", "version.reason", "Why it was refused."),
        ("fingerprint", "text", "version.fingerprint", "Of its bytes; engines repeat it when they serve it."),
        ("bytes", "bigint", "version.bytes", "Size of its folder."),
        ("engines", "bigint", "SELECT count(*) FROM runs_acknowledgement word WHERE word.weight_version_id = version.id",
         "Engines that said they serve it."),
        ("staged_at", "timestamptz", "version.staged_at", "When it was written."),
        ("verified_at", "timestamptz", "version.verified_at", "When it was checked."),
        ("published_at", "timestamptz", "version.published_at", "When it was offered to engines."),
    ),
    view(
        "evaluations", "A weight version that was asked tasks, each once: what of it is known.",
        "runs_run evaluation LEFT JOIN runs_weightversion version ON version.id = evaluation.evaluates_id "
        "LEFT JOIN tasksets_taskset taskset ON taskset.id = evaluation.taskset_id "
        "LEFT JOIN feedback_evaluationresult result ON result.run_id = evaluation.id WHERE evaluation.is_evaluation",
        ("evaluation_id", "bigint", "evaluation.id",
         "Its number; it is a run of its own, and elsewhere this is its `run_id`."),
        ("run_id", "bigint", "coalesce(version.run_id, evaluation.id)",
         "Of `runs`: whose version it asks; itself of an untrained policy."),
        ("weight_version", "bigint", "coalesce(version.version, 0)", "That run's version that it asks."),
        ("taskset", "text", "taskset.slug", "Whose tasks it asks."),
        ("asked", "text", "evaluation.evaluation_set", "The same for all that ask the same: samples, temperature, judges."),
        ("state", "text", "evaluation.state", "created, running, paused, stopped or completed."),
        ("samples_per_task", "bigint", "evaluation.config #>> '{group_size}'", "Answers to each task."),
        ("tasks", "bigint", "result.figures ->> 'tasks'", "Tasks asked; NULL until it is complete, as what follows."),
        ("samples", "bigint", "result.figures ->> 'samples'", "Answers asked for."),
        ("judged", "bigint", "result.figures ->> 'judged'", "Answers with a reward: figures are made of these alone."),
        ("unjudged", "bigint", "result.figures ->> 'unjudged'", "Answers that nobody judged; not counted as wrong."),
        ("failed", "bigint", "result.figures ->> 'failed'", "Answers that never came."),
        ("created_at", "timestamptz", "evaluation.created_at", "When it was made."),
        ("summed_up_at", "timestamptz", "result.made_at", "When its figures were made."),
    ),
    view(
        "evaluation_figures", "A figure of a complete evaluation: mean over its tasks.",
        "feedback_evaluationresult result JOIN runs_run evaluation ON evaluation.id = result.run_id "
        "LEFT JOIN runs_weightversion version ON version.id = evaluation.evaluates_id "
        "CROSS JOIN LATERAL jsonb_each(result.figures -> 'figures') measured (name, by_k) "
        "CROSS JOIN LATERAL jsonb_each(measured.by_k) figure (k, told)",
        ("evaluation_id", "bigint", "evaluation.id", "Of `evaluations`."),
        ("run_id", "bigint", "coalesce(version.run_id, evaluation.id)", "Of `runs`, as there."),
        ("weight_version", "bigint", "coalesce(version.version, 0)", "The version that was asked."),
        ("asked", "text", "evaluation.evaluation_set", "The same for all that ask the same: those can be compared."),
        ("measure", "text", "measured.name", "pass, mean, best, worst or maj."),
        ("k", "bigint", "figure.k", "Of so many answers to a task."),
        ("value", "double precision", "figure.told ->> 0", "NULL: no task has so many judged answers."),
        ("low", "double precision", "figure.told ->> 1", "Where its 95 % interval begins."),
        ("high", "double precision", "figure.told ->> 2", "Where it ends."),
        ("tasks", "bigint", "figure.told ->> 3", "Tasks that have the figure."),
    ),
)  # fmt: skip
