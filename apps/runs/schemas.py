"""Runs as REST documents."""

from typing import Any

from rest_framework import serializers

from apps.accounts.documents import Choice, Slug, Strict, Text
from apps.accounts.listing import Paged, Query
from apps.accounts.models import Project, User
from apps.accounts.reasons import MAX_REASON_LENGTH, NotAReason, check_reason
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.tasksets.models import Taskset

MAX_NAMES = 50
STEPS = 200
MAX_STEPS = 1_000


class RunRow(serializers.ModelSerializer[Run]):
    """A run in a list. Raters who rate it blind get no version and no reason."""

    # The context's `open_runs` are the runs that the user may see in full.

    project = serializers.SlugRelatedField[Project]("slug", read_only=True)
    policy = serializers.SlugRelatedField[Policy]("slug", read_only=True)
    taskset = serializers.SlugRelatedField[Taskset](
        "slug", read_only=True, allow_null=True, help_text="Null if the run samples from several."
    )
    tasksets = serializers.DictField(
        source="share_of",
        child=serializers.IntegerField(min_value=1),
        read_only=True,
        help_text="Share of the sampled tasks by slug.",
    )
    owner = serializers.SlugRelatedField[User]("username", read_only=True, allow_null=True)
    state_reason = serializers.SerializerMethodField(
        help_text="Why the run is in that state; empty for raters who rate blind."
    )
    published_version = serializers.SerializerMethodField()
    topic = serializers.IntegerField(
        source="topic_id", read_only=True, help_text="Name of the run in WebSocket messages."
    )

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "id",
            "project",
            "slug",
            "title",
            "state",
            "state_reason",
            "waiting_on",
            "policy",
            "taskset",
            "tasksets",
            "owner",
            "topic",
            "planned_steps",
            "step",
            "published_version",
            "groups_opened",
            "groups_dropped",
            "created_at",
            "started_at",
            "ended_at",
        )

    def get_state_reason(self, run: Run) -> str:
        return run.state_reason if run.pk in self.context["open_runs"] else ""

    def get_published_version(self, run: Run) -> int | None:
        return run.published_version if run.pk in self.context["open_runs"] else None


class RunDocument(RunRow):
    """A run with its configuration."""

    config = serializers.DictField(read_only=True)

    class Meta(RunRow.Meta):
        fields = (*RunRow.Meta.fields, "config")


class NewRun(Strict):
    """A new run."""

    project = Text(max_length=50, help_text="Slug of the project.")
    slug = Slug(max_length=50)
    title = Text(max_length=200)
    config = serializers.DictField(
        help_text=(
            "The configuration as in `manage.py runs create`; `apps/runs/config.py` describes "
            "every field."
        )
    )


class Reason(Text):
    """Reason of an action, as it stands in the audit log."""

    def to_internal_value(self, data: object) -> str:
        try:
            return check_reason(super().to_internal_value(data))
        except NotAReason as error:
            raise serializers.ValidationError(str(error)) from None


class Why(Strict):
    """An action with a reason."""

    reason = Reason(
        required=False,
        default="",
        allow_blank=True,
        max_length=MAX_REASON_LENGTH,
        help_text="One line of plain text for the run's event and the audit log.",
    )


class Nothing(Strict):
    """An action that needs no reason."""


class RunQuery(Paged):
    project = serializers.SlugField(required=False, max_length=50)
    state = Choice(Run.State.choices, required=False)


class NamesField(serializers.CharField):
    """Names of metrics, as a list."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=4_000, help_text="Comma-separated; empty for all.", **options)

    # DRF's types let no CharField make anything but a string of its data.
    def to_internal_value(self, data: Any) -> list[str]:  # type: ignore[override]
        names = [name for name in super().to_internal_value(data).split(",") if name]
        if not 1 <= len(names) <= MAX_NAMES:
            raise serializers.ValidationError(f"From 1 to {MAX_NAMES} names.")
        return names


class MetricQuery(Query):
    """`after` a step, for at most `steps` of them."""

    after = serializers.IntegerField(required=False, default=0, min_value=0, max_value=2**31 - 1)
    steps = serializers.IntegerField(
        required=False, default=STEPS, min_value=1, max_value=MAX_STEPS
    )
    names = NamesField(required=False)


class Curve(serializers.Serializer[Any]):
    steps = serializers.ListField(child=serializers.IntegerField())
    values = serializers.ListField(child=serializers.FloatField())


class Metrics(serializers.Serializer[Any]):
    """Curves of the steps from `after` (left out) to `until`."""

    step = serializers.IntegerField(help_text="Committed steps of the run.")
    until = serializers.IntegerField(help_text="Value of `after` for the next page.")
    more = serializers.BooleanField()
    curves = serializers.DictField(child=Curve())
