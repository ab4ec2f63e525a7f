"""Theme of the administration: colours, and a sidebar of links grouped by subject."""

from collections.abc import Callable

from django.contrib import admin
from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy
from django.utils.safestring import SafeString
from django.utils.text import capfirst

# The same hue as in static/css/app.css. Where the theme uses a shade in light and dark mode, both
# were checked.
HUE = 275
BASE = {
    "50": (0.978, 0.004),
    "100": (0.962, 0.005),
    "200": (0.905, 0.006),
    "300": (0.84, 0.008),
    "400": (0.70, 0.013),
    "500": (0.53, 0.014),
    "600": (0.45, 0.018),
    "700": (0.37, 0.016),
    "800": (0.29, 0.014),
    "900": (0.19, 0.013),
    "950": (0.15, 0.012),
}
PRIMARY = {
    "50": (0.97, 0.018),
    "100": (0.945, 0.03),
    "200": (0.90, 0.055),
    "300": (0.83, 0.09),
    "400": (0.76, 0.12),
    "500": (0.72, 0.135),
    "600": (0.51, 0.19),
    "700": (0.45, 0.18),
    "800": (0.38, 0.15),
    "900": (0.31, 0.11),
    "950": (0.25, 0.08),
}


def shades(of: dict[str, tuple[float, float]]) -> dict[str, str]:
    return {name: f"oklch({light:.1%} {chroma} {HUE})" for name, (light, chroma) in of.items()}


def may_see(model: str) -> Callable[[HttpRequest], bool]:
    app, _, name = model.partition("_")
    return lambda request: request.user.has_perm(f"{app}.view_{name}")


def table_link(title: str, icon: str, model: str) -> dict:
    """Return a link to the rows of a model, named as in its URLs: `runs_run`."""
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{model}_changelist"),
        "permission": may_see(model),
    }


def page_link(title: str, icon: str, name: str) -> dict:
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(name),
        "permission": may_see("runs_run"),
    }


def menu_part(title: str, *items: dict) -> dict:
    return {"title": title, "separator": True, "collapsible": True, "items": list(items)}


RAIL = [
    {
        "title": "Installation",
        "items": [
            {"title": "Overview", "icon": "dashboard", "link": reverse_lazy("admin:index")},
            page_link("Storage and retention", "database", "admin-storage"),
            page_link("Scorers", "rule", "admin-scorers"),
            table_link("Workers", "memory", "runs_worker"),
            table_link("Logs", "article", "runs_logline"),
            table_link("Audit", "history", "accounts_auditentry"),
        ],
    },
    menu_part(
        "People",
        table_link("Users", "person", "accounts_user"),
        table_link("Projects and roles", "groups", "accounts_project"),
        table_link("Tokens", "key", "accounts_token"),
        table_link("Second factors", "phonelink_lock", "mfa_authenticator"),
        table_link("Staff groups", "badge", "auth_group"),
    ),
    menu_part(
        "Catalogue",
        table_link("Tasksets", "library_books", "tasksets_taskset"),
        table_link("Tasks", "quiz", "tasksets_task"),
        table_link("Imports", "upload_file", "tasksets_tasksetimport"),
        table_link("Excluded lines", "report", "tasksets_quarantinedline"),
        table_link("Models", "neurology", "policies_policy"),
        table_link("Environments", "videogame_asset", "environments_environment"),
    ),
    menu_part(
        "Runs",
        table_link("Runs", "play_circle", "runs_run"),
        table_link("Training steps", "stairs", "runs_trainstep"),
        table_link("Metrics", "monitoring", "runs_metric"),
        table_link("Weight versions", "layers", "runs_weightversion"),
        table_link("Acknowledgements", "verified", "runs_acknowledgement"),
        table_link("Taskset shares", "pie_chart", "runs_tasksetshare"),
        table_link("Exports of weights", "outbox", "runs_exportjob"),
        table_link("Metric spans", "show_chart", "runs_metricspan"),
        table_link("Resource usage", "hourglass_top", "runs_usage"),
        table_link("Usage totals", "functions", "runs_usagetotal"),
        table_link("Prices", "payments", "runs_prices"),
        table_link("Events", "bolt", "streaming_event"),
        table_link("Topics", "sensors", "streaming_topic"),
    ),
    menu_part(
        "Alerts",
        table_link("Alerts", "warning", "alerts_alert"),
        table_link("Alert history", "history_edu", "alerts_alertentry"),
        table_link("Channels", "campaign", "alerts_channel"),
        table_link("Deliveries", "send", "alerts_delivery"),
    ),
    menu_part(
        "Sampling and play",
        table_link("Groups", "workspaces", "rollouts_group"),
        table_link("Rollouts", "chat", "rollouts_rollout"),
        table_link("Episodes", "sports_esports", "environments_episode"),
        table_link("Episode turns", "forum", "environments_episodeturn"),
        table_link("Play sessions", "cable", "environments_playsession"),
        table_link("Chats", "sms", "rollouts_chat"),
        table_link("Chat turns", "sms", "rollouts_chatturn"),
        table_link("Comparisons", "compare", "rollouts_comparison"),
    ),
    menu_part(
        "Rewards and ratings",
        table_link("Rewards", "star", "rewards_reward"),
        table_link("Rescorings", "autorenew", "rewards_rescoring"),
        table_link("Ratings", "thumbs_up_down", "feedback_rating"),
        table_link("Items to rate", "help", "feedback_item"),
        table_link("Item slots", "event_seat", "feedback_slot"),
        table_link("Skips", "skip_next", "feedback_skip"),
        table_link("Interventions", "back_hand", "feedback_intervention"),
        table_link("Rater models", "psychology", "feedback_ratermodel"),
        table_link("Agent feedback", "record_voice_over", "environments_feedback"),
        table_link("Calibrations", "balance", "feedback_calibration"),
        table_link("Suspicions", "policy_alert", "feedback_suspicion"),
        table_link("Adjudications", "gavel", "feedback_adjudication"),
        table_link("Predictions", "online_prediction", "feedback_prediction"),
        table_link("Judge replies", "smart_toy", "rewards_judgereply"),
    ),
    menu_part(
        "Lessons",
        table_link("Demonstrations", "school", "feedback_demonstration"),
        table_link("Preferences", "compare_arrows", "feedback_preference"),
        table_link("Thumbs", "thumb_up", "feedback_thumb"),
        table_link("Experts’ answers", "workspace_premium", "feedback_expertanswer"),
    ),
    menu_part(
        "Buffer",
        table_link("Experiences", "inventory_2", "buffer_experience"),
        table_link("Batches", "list_alt", "buffer_stepitem"),
        table_link("Snapshots", "photo_camera", "buffer_snapshot"),
        table_link("Lessons by step", "menu_book", "buffer_steplesson"),
        table_link("Offspring", "family_history", "buffer_offspring"),
        table_link("Seeds", "grass", "buffer_seed"),
        table_link("Released arrays", "delete_sweep", "buffer_release"),
    ),
]


def navigation(request: HttpRequest) -> list[dict]:
    """Return the sidebar; a last group holds the tables that no other group names."""
    linked = {str(item["link"]) for section in RAIL for item in section["items"]}
    unlisted = [
        model._meta
        for model in admin.site._registry
        if reverse(admin_urlname(model._meta, SafeString("changelist"))) not in linked
    ]
    links = [
        table_link(
            capfirst(str(meta.verbose_name_plural)),
            "table_rows",
            f"{meta.app_label}_{meta.model_name}",
        )
        for meta in sorted(unlisted, key=lambda meta: meta.label)
    ]
    return [*RAIL, menu_part("More", *links)] if links else RAIL


UNFOLD = {
    "SITE_TITLE": "rftweb administration",
    "SITE_HEADER": "rftweb",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_ICON": lambda request: static("icon.svg"),
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("icon.svg")}
    ],
    "SHOW_HISTORY": False,
    "SHOW_BACK_BUTTON": True,
    "BORDER_RADIUS": "6px",
    "COLORS": {"base": shades(BASE), "primary": shades(PRIMARY)},
    "STYLES": [lambda request: static("css/admin.css")],
    "DASHBOARD_CALLBACK": "rftweb.administration.overview.add_overview",
    "SIDEBAR": {
        "show_search": True,
        "show_all_applications": False,
        "navigation": "rftweb.administration.look.navigation",
    },
}
