"""The theme of the administration: our hues, and a rail of what there is, by what it is about."""

from collections.abc import Callable

from django.contrib import admin
from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy
from django.utils.text import capfirst

# The same hue as in static/css/app.css. Where the theme has a light and a dark use of a shade, both were looked at.
HUE = 275
BASE = {
    "50": (0.978, 0.004), "100": (0.962, 0.005), "200": (0.905, 0.006), "300": (0.84, 0.008), "400": (0.70, 0.013),
    "500": (0.53, 0.014), "600": (0.45, 0.018), "700": (0.37, 0.016), "800": (0.29, 0.014), "900": (0.19, 0.013),
    "950": (0.15, 0.012),
}  # fmt: skip
PRIMARY = {
    "50": (0.97, 0.018), "100": (0.945, 0.03), "200": (0.90, 0.055), "300": (0.83, 0.09), "400": (0.76, 0.12), "500": (0.72, 0.135),
    "600": (0.51, 0.19), "700": (0.45, 0.18), "800": (0.38, 0.15), "900": (0.31, 0.11), "950": (0.25, 0.08),
}  # fmt: skip


def shades(of: dict[str, tuple[float, float]]) -> dict[str, str]:
    return {name: f"oklch({light:.1%} {chroma} {HUE})" for name, (light, chroma) in of.items()}


def may_see(model: str) -> Callable[[HttpRequest], bool]:
    app, _, name = model.partition("_")
    return lambda request: request.user.has_perm(f"{app}.view_{name}")


def table(title: str, icon: str, model: str) -> dict:
    """A link to the rows of a model, named as its addresses are: `runs_run`."""
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{model}_changelist"), "permission": may_see(model)}


def page(title: str, icon: str, name: str) -> dict:
    return {"title": title, "icon": icon, "link": reverse_lazy(name), "permission": may_see("runs_run")}


def part(title: str, *items: dict) -> dict:
    return {"title": title, "separator": True, "collapsible": True, "items": list(items)}


RAIL = [
    {
        "title": "Installation",
        "items": [
            {"title": "Overview", "icon": "dashboard", "link": reverse_lazy("admin:index")},
            page("Storage and retention", "database", "admin-storage"),
            page("Scorers", "rule", "admin-scorers"),
            table("Workers", "memory", "runs_worker"),
            table("Logs", "article", "runs_logline"),
            table("Audit", "history", "accounts_auditentry"),
        ],
    },
    part(
        "People", table("Users", "person", "accounts_user"), table("Projects and roles", "groups", "accounts_project"),
        table("Tokens", "key", "accounts_token"), table("Second factors", "phonelink_lock", "mfa_authenticator"),
        table("Staff groups", "badge", "auth_group"),
    ),
    part(
        "Catalogue", table("Tasksets", "library_books", "tasksets_taskset"), table("Tasks", "quiz", "tasksets_task"),
        table("Imports", "upload_file", "tasksets_tasksetimport"), table("Lines left out", "report", "tasksets_quarantinedline"),
        table("Policies", "neurology", "policies_policy"), table("Environments", "videogame_asset", "environments_environment"),
    ),
    part(
        "Runs", table("Runs", "play_circle", "runs_run"), table("Updates", "stairs", "runs_trainstep"),
        table("Metrics", "monitoring", "runs_metric"), table("Weight versions", "layers", "runs_weightversion"),
        table("Acknowledgements", "verified", "runs_acknowledgement"),
        table("Shares of tasksets", "pie_chart", "runs_tasksetshare"),
        table("Orders for weights", "outbox", "runs_weightorder"), table("Spans of metrics", "show_chart", "runs_metricspan"),
        table("Use of machines", "hourglass_top", "runs_usage"), table("Totals of use", "functions", "runs_usagetotal"),
        table("Prices", "payments", "runs_prices"),
        table("Events", "bolt", "streaming_event"), table("Topics", "sensors", "streaming_topic"),
    ),
    part(
        "Alerts", table("Alerts", "warning", "alerts_alert"), table("What became of them", "history_edu", "alerts_alertentry"),
        table("Channels", "campaign", "alerts_channel"), table("Deliveries", "send", "alerts_delivery"),
    ),
    part(
        "What happened", table("Groups", "workspaces", "rollouts_group"), table("Rollouts", "chat", "rollouts_rollout"),
        table("Episodes", "sports_esports", "environments_episode"), table("Turns", "forum", "environments_episodeturn"),
        table("Play sessions", "cable", "environments_playsession"), table("Chats", "sms", "rollouts_chat"),
        table("Turns of chats", "sms", "rollouts_chatturn"), table("Comparisons", "compare", "rollouts_comparison"),
    ),
    part(
        "What was said", table("Rewards", "star", "rewards_reward"), table("New sets of rewards", "autorenew", "rewards_rescoring"),
        table("Ratings", "thumbs_up_down", "feedback_rating"), table("Questions", "help", "feedback_item"),
        table("Seats", "event_seat", "feedback_slot"), table("Skips", "skip_next", "feedback_skip"),
        table("Interventions", "back_hand", "feedback_intervention"), table("Rater models", "psychology", "feedback_ratermodel"),
        table("Words of agents", "record_voice_over", "environments_feedback"),
        table("Calibrations", "balance", "feedback_calibration"), table("Suspicions", "policy_alert", "feedback_suspicion"),
        table("Adjudications", "gavel", "feedback_adjudication"), table("Predictions", "online_prediction", "feedback_prediction"),
        table("Replies of judges", "smart_toy", "rewards_judgereply"),
    ),
    part(
        "Lessons", table("Demonstrations", "school", "feedback_demonstration"),
        table("Preferences", "compare_arrows", "feedback_preference"), table("Thumbs", "thumb_up", "feedback_thumb"),
        table("Experts’ answers", "workspace_premium", "feedback_expertanswer"),
    ),
    part(
        "Buffer", table("Experiences", "inventory_2", "buffer_experience"), table("Batches", "list_alt", "buffer_stepitem"),
        table("Snapshots", "photo_camera", "buffer_snapshot"), table("Lessons of updates", "menu_book", "buffer_steplesson"),
        table("Offspring", "family_history", "buffer_offspring"), table("Seeds", "grass", "buffer_seed"),
        table("Released arrays", "delete_sweep", "buffer_release"),
    ),
]  # fmt: skip


def navigation(request: HttpRequest) -> list[dict]:
    """The rail, and under a last heading the tables that it does not name: none is forgotten."""
    named = {str(item["link"]) for one in RAIL for item in one["items"]}
    others = [model._meta for model in admin.site._registry if reverse(admin_urlname(model._meta, "changelist")) not in named]
    links = [
        table(capfirst(meta.verbose_name_plural), "table_rows", f"{meta.app_label}_{meta.model_name}")
        for meta in sorted(others, key=lambda meta: meta.label)
    ]
    return [*RAIL, part("More", *links)] if links else RAIL


UNFOLD = {
    "SITE_TITLE": "rftweb administration",
    "SITE_HEADER": "rftweb",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_ICON": lambda request: static("icon.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("icon.svg")}],
    "SHOW_HISTORY": False,
    "SHOW_BACK_BUTTON": True,
    "BORDER_RADIUS": "6px",
    "COLORS": {"base": shades(BASE), "primary": shades(PRIMARY)},
    "STYLES": [lambda request: static("css/admin.css")],
    "DASHBOARD_CALLBACK": "rftweb.administration.overview.figures",
    "SIDEBAR": {"show_search": True, "show_all_applications": False, "navigation": "rftweb.administration.look.navigation"},
}
