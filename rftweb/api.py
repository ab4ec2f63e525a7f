"""Which room answers which address under /api/v1/. What there is, is told by /api/v1/schema/ and docs/openapi.yaml."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView

from apps.accounts.nowhere import Nowhere
from apps.feedback.api import RatingQueue, Ratings
from apps.feedback.items_api import Claims, KeepSlot, ReleaseSlot, SkipSlot, Slots
from apps.feedback.tracing_api import Exports, Replays, Trace, TraceOfRating
from apps.rewards.scoring import require_known_scorers
from apps.rollouts.api import OneRollout, Rollouts
from apps.runs.api import ActWithReason, OneRun, PlainAct, RunMetrics, Runs

app_name = "api"
urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("runs/", Runs.as_view(require=require_known_scorers), name="runs"),
    path("runs/<int:pk>/", OneRun.as_view(), name="run"),
    path("runs/<int:pk>/start/", PlainAct.as_view(verb="start"), name="run-start"),
    path("runs/<int:pk>/pause/", ActWithReason.as_view(verb="pause"), name="run-pause"),
    path("runs/<int:pk>/resume/", PlainAct.as_view(verb="resume"), name="run-resume"),
    path("runs/<int:pk>/stop/", ActWithReason.as_view(verb="stop"), name="run-stop"),
    path("runs/<int:pk>/metrics/", RunMetrics.as_view(), name="run-metrics"),
    path("runs/<int:pk>/trace/<int:version>/", Trace.as_view(), name="run-trace"),
    path("runs/<int:pk>/replay/", Replays.as_view(), name="run-replay"),
    path("runs/<int:pk>/exports/<slug:kind>/", Exports.as_view(), name="run-export"),
    path("rollouts/", Rollouts.as_view(), name="rollouts"),
    path("rollouts/<int:pk>/", OneRollout.as_view(), name="rollout"),
    path("ratings/", Ratings.as_view(), name="ratings"),
    path("ratings/<int:pk>/trace/", TraceOfRating.as_view(), name="rating-trace"),
    path("rating-queue/", RatingQueue.as_view(), name="rating-queue"),
    path("rating-queue/claim/", Claims.as_view(), name="rating-claim"),
    path("rating-slots/<int:pk>/", Slots.as_view(), name="rating-slot"),
    path("rating-slots/<int:pk>/keep/", KeepSlot.as_view(), name="rating-slot-keep"),
    path("rating-slots/<int:pk>/release/", ReleaseSlot.as_view(), name="rating-slot-release"),
    path("rating-slots/<int:pk>/skip/", SkipSlot.as_view(), name="rating-slot-skip"),
    re_path("", Nowhere.as_view(), name="nowhere"),
]
