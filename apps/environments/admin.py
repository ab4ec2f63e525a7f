"""Administration pages of environments; those of episodes and turns are read-only."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from apps.accounts.ledger_admin import (
    LedgerAdmin,
    PlainAdmin,
    newest_rows_filter,
    register_read_only,
)
from apps.accounts.requests import is_signed_in
from apps.environments.models import (
    Environment,
    Episode,
    EpisodeTurn,
    Feedback,
    PlaySession,
    TurnedAway,
)
from apps.environments.pull.errors import CallFailed
from apps.environments.pull.forms import EnvironmentForm
from apps.environments.pull.registering import check_service


@admin.register(Environment)
class EnvironmentAdmin(PlainAdmin):
    form = EnvironmentForm
    actions = ["check_now"]
    list_display = ["name", "project", "kind", "version", "failures", "open_until", "open_reason"]
    list_filter = ["kind", "project"]
    list_select_related = ["project"]
    readonly_fields = ["failures", "open_until", "open_reason", "created_by", "created_at"]
    ordering = ["-pk"]

    def save_model(
        self, request: HttpRequest, obj: Environment, form: ModelForm, change: bool
    ) -> None:
        if not change and is_signed_in(request):
            obj.created_by = request.user
        super().save_model(request, obj, form, change)

    @admin.action(description="Check the connection")
    def check_now(self, request: HttpRequest, environments: QuerySet[Environment]) -> None:
        for environment in environments:
            try:
                self.message_user(
                    request, f"{environment}: {check_service(environment)}", messages.SUCCESS
                )
            except CallFailed as why:
                self.message_user(
                    request, f"{environment}: does not respond: {why}", messages.ERROR
                )


@admin.register(Episode)
class EpisodeAdmin(LedgerAdmin):
    is_large = True
    list_display = [
        "pk",
        "environment",
        "run",
        "session",
        "rollout",
        "client",
        "state",
        "reason",
        "turns",
        "opened_at",
        "closed_at",
    ]
    list_filter = [newest_rows_filter("state")]
    list_select_related = ["environment", "run", "session", "rollout", "client"]
    ordering = ["-pk"]


@admin.register(PlaySession)
class PlaySessionAdmin(LedgerAdmin):
    list_display = [
        "pk",
        "environment",
        "user",
        "way",
        "opened_at",
        "heard_at",
        "closed_at",
        "reason",
    ]
    list_filter = ["environment"]
    list_select_related = ["environment", "user"]
    ordering = ["-pk"]


@admin.register(EpisodeTurn)
class EpisodeTurnAdmin(LedgerAdmin):
    is_large = True
    list_display = [
        "pk",
        "episode",
        "number",
        "reward",
        "reason",
        "done",
        "tokens",
        "requested_at",
        "answered_at",
    ]
    list_select_related = ["episode"]
    ordering = ["-pk"]


@admin.register(Feedback)
class FeedbackAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "turn", "by", "person", "version", "value", "correction", "is_late", "at"]
    list_select_related = ["turn", "by"]
    ordering = ["-pk"]


register_read_only(TurnedAway, "run", "count", "at")
