"""Addresses of the pages. What changes something is POST."""

from django.conf import settings
from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.views.generic import RedirectView

from apps.dashboard.views import (
    account,
    adjudication,
    bought,
    environments,
    episodes,
    exports,
    following,
    gold,
    lessons,
    live,
    people,
    pictures,
    playing,
    quality,
    rater_model,
    replaying,
    rollouts,
    runs,
    steering,
    styleguide,
    tasksets,
    tracing,
    weights,
)


class Sha256(StringConverter):
    """A digest in hex, as pictures are named."""

    regex = "[0-9a-f]{64}"


register_converter(Sha256, "sha256")
RUN = "runs/<slug:project>/<slug:slug>/"

urlpatterns = [
    path("", live.home, name="home"),
    path("live/", live.live, name="live"),
    path("live/cards/", live.cards, name="live-cards"),
    path("live/chips/", live.chips, name="live-chips"),
    path("live/<int:rollout>/", following.follow, name="live-follow"),
    path("live/<int:rollout>/<slug:kind>/", following.act, name="live-act"),
    path("runs/", runs.runs, name="runs"),
    path(RUN, runs.run, name="run"),
    path(RUN + "curves/", runs.run_curves, name="run-curves"),
    path(RUN + "part/<slug:part>/", runs.run_part, name="run-part"),
    path(RUN + "act/<slug:verb>/", steering.act, name="run-act"),
    path(RUN + "simulated-rater/", steering.simulated_rater, name="run-simulated-rater"),
    path(RUN + "people/", people.people, name="run-people"),
    path(RUN + "people/preview/", people.preview, name="run-people-preview"),
    path(RUN + "people/rater-model/", rater_model.rater_model, name="run-rater-model"),
    path(RUN + "people/rater-model/curves/", rater_model.rater_model_curves, name="run-rater-model-curves"),
    path(RUN + "people/gold/", gold.gold_items, name="run-gold"),
    path(RUN + "people/gold/new/", gold.new_gold, name="run-gold-new"),
    path(RUN + "people/gold/<int:pk>/retire/", gold.retire_gold, name="run-gold-retire"),
    path(RUN + "people/quality/", quality.quality, name="run-quality"),
    path(RUN + "people/adjudicate/", adjudication.disputes, name="run-adjudicate"),
    path(RUN + "people/adjudicate/<int:pk>/", adjudication.dispute, name="run-dispute"),
    path(RUN + "people/bought/", bought.what_time_bought, name="run-bought"),
    path(RUN + "people/bought/curves/", bought.bought_curves, name="run-bought-curves"),
    path(RUN + "exports/", exports.exports, name="run-exports"),
    path(RUN + "exports/<slug:what>.<slug:format>", exports.export, name="run-export"),
    path(RUN + "trace/", tracing.trace, name="run-trace"),
    path(RUN + "trace/<int:version>/", tracing.trace, name="run-trace-version"),
    path(RUN + "trace/models/<int:number>/", tracing.learned, name="run-trace-model"),
    path(RUN + "replay/", replaying.replay, name="run-replay"),
    path(RUN + "rollouts/", rollouts.rollouts, name="rollouts"),
    path(RUN + "weights/", weights.weights_of_run, name="run-weights"),
    path("rollouts/<int:pk>/", rollouts.rollout, name="rollout"),
    path("ratings/<int:pk>/", tracing.rating, name="rating"),
    path("lessons/<slug:project>/import/", lessons.import_page, name="lessons-import"),
    path("tasksets/", tasksets.tasksets, name="tasksets"),
    path("tasksets/<slug:project>/<slug:slug>/", tasksets.taskset, name="taskset"),
    path("pictures/<sha256:sha256>/", pictures.picture, name="picture"),
    path("environments/", environments.environments, name="environments"),
    path("environments/<slug:project>/<slug:name>/", environments.environment, name="environment"),
    path("environments/<slug:project>/<slug:name>/now/", environments.environment_now, name="environment-now"),
    path("environments/<slug:project>/<slug:name>/close-breaker/", environments.close, name="close-breaker"),
    path("episodes/<int:pk>/", episodes.episode, name="episode"),
    path("episodes/<int:pk>/now/", episodes.episode_now, name="episode-now"),
    path("episodes/<int:pk>/take/", playing.take_episode, name="episode-take"),
    path("episodes/<int:pk>/say/", playing.say_turn, name="episode-say"),
    path("episodes/<int:pk>/end/", playing.end_episode, name="episode-end"),
    path("weights/", weights.weights, name="weights"),
    path("settings/", account.settings_page, name="settings"),
    path("settings/keys/", account.rating_keys, name="rating-keys"),
    path("settings/tokens/", account.issue_token, name="issue-token"),
    path("settings/tokens/<int:pk>/revoke/", account.revoke_token, name="revoke-token"),
    path("favicon.ico", RedirectView.as_view(url=settings.STATIC_URL + "icon.svg")),
]
if settings.DEBUG:
    urlpatterns += [path("styleguide/", styleguide.styleguide, name="styleguide")]
