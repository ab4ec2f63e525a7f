"""Settings of the installation, read from environment variables; errors name the variable.

A run's own settings are not here: they are `apps.runs.config.RunConfig`, stored on the Run.
"""

from pathlib import Path

import dj_database_url
from kombu import Queue

from rftweb import environment, places
from rftweb.administration.look import UNFOLD  # noqa: F401  (django-unfold reads it)

BASE_DIR = places.CODE
# Templates, documentation, examples and locked requirements: in BASE_DIR unless installed by pip.
FILES = places.FILES
VAR = Path(environment.text("RFTWEB_VAR", str(places.default_data_folder()))).resolve()

DEBUG = environment.read_flag("RFTWEB_DEBUG", False)
SECRET_KEY = environment.secret_key(VAR, DEBUG)
ALLOWED_HOSTS = environment.host_names("RFTWEB_HOSTS", "localhost,127.0.0.1,[::1]")
# The public URL of this installation, for links in e-mails and webhooks; empty omits the links.
SITE_ADDRESS = environment.web_address("RFTWEB_ADDRESS")
CSRF_TRUSTED_ORIGINS = environment.site_origins("RFTWEB_ORIGINS")
HTTPS = environment.read_flag("RFTWEB_HTTPS", False)
# Whether administrators must set up a second factor before they may do anything else.
REQUIRE_MFA_FOR_STAFF = environment.read_flag("RFTWEB_REQUIRE_MFA_FOR_STAFF", False)
# Internal hosts at which environments may be called; external ones may be called on the ports of
# http and https.
ENVIRONMENT_HOSTS = environment.read_places("RFTWEB_ENVIRONMENT_HOSTS")
# Secrets for services that we call (judges, environments): host=VARIABLE, the variable holding the
# secret. It is sent to that host only.
JUDGE_KEYS = environment.secrets_of_hosts("RFTWEB_JUDGE_KEYS")
ENVIRONMENT_KEYS = environment.secrets_of_hosts("RFTWEB_ENVIRONMENT_KEYS")
# Allowed tasksets of the verifiers package, the interpreter that has the package, and further
# folders of tasksets.
VERIFIERS_TASKSETS = environment.read_names("RFTWEB_VERIFIERS")
VERIFIERS_PYTHON = Path(
    environment.text(
        "RFTWEB_VERIFIERS_PYTHON", str(BASE_DIR / ".venv-verifiers" / "bin" / "python")
    )
)
VERIFIERS_PATH = ":".join(
    str(Path(folder).resolve())
    for folder in environment.text("RFTWEB_VERIFIERS_PATH").split(":")
    if folder
)
# The Python interpreter with the data-juicer package, whose filters pipelines may use.
DATA_JUICER_PYTHON = Path(
    environment.text(
        "RFTWEB_DATA_JUICER_PYTHON", str(BASE_DIR / ".venv-data-juicer" / "bin" / "python")
    )
)
# Folder with plugins of the operator: scorers, rating forms, environments and other parts.
_plugins = environment.text("RFTWEB_PLUGINS")
PLUGINS = Path(_plugins).resolve() if _plugins else None

# Weights and checkpoints: explorers and trainers must see the same folder.
WEIGHTS_ROOT = Path(environment.text("RFTWEB_WEIGHTS", str(VAR / "weights"))).resolve()
# A machine without that folder downloads weights from a web process that has it, at this URL; a web
# process serves them to machines that prove to have the secret. Empty: no downloads.
WEIGHTS_URL = environment.web_address("RFTWEB_WEIGHTS_URL")
WEIGHTS_SECRET = environment.shared_secret("RFTWEB_WEIGHTS_SECRET")
environment.require_together(RFTWEB_WEIGHTS_URL=WEIGHTS_URL, RFTWEB_WEIGHTS_SECRET=WEIGHTS_SECRET)
# Size of the cache of downloaded weights; the least recently used are deleted first.
WEIGHTS_CACHE_MB = environment.read_number_setting("RFTWEB_WEIGHTS_CACHE_MB", 100_000, minimum=1)
# Uploaded files until they are imported; with several machines a shared folder, as for weights.
IMPORTS_ROOT = Path(environment.text("RFTWEB_IMPORTS", str(VAR / "imports"))).resolve()
# Folder of the server whose models owners and researchers may add; empty: none may be added so.
_models = environment.text("RFTWEB_MODELS")
MODELS_ROOT = Path(_models).resolve() if _models else None
# Days after which the rollout arrays of ended runs without a rule of their own are deleted; 0 keeps
# them.
RETENTION_DAYS = environment.read_number_setting("RFTWEB_RETENTION_DAYS", 0, maximum=36_500)
# How many log lines of its processes the installation stores as rows, and for how long; 0 lines
# stores none.
LOG_ROWS = environment.read_number_setting("RFTWEB_LOG_ROWS", 1_000_000, maximum=100_000_000)
LOG_DAYS = environment.read_number_setting("RFTWEB_LOG_DAYS", 14, minimum=1, maximum=3_650)
ENGINES_PER_WORKER = environment.read_number_setting("RFTWEB_ENGINES_PER_WORKER", 4, minimum=1)
# With fewer engines than runs: seconds after which an engine makes room for a run that has none.
ENGINE_TURN_SECONDS = environment.read_number_setting("RFTWEB_ENGINE_TURN_SECONDS", 60, minimum=1)
TRAINERS_PER_WORKER = environment.read_number_setting("RFTWEB_TRAINERS_PER_WORKER", 2, minimum=1)
# If a trainer cannot hold all runs with work: how long a run keeps its place, and the shortest time
# between two builds of its trainer.
TRAINER_TURN_SECONDS = environment.read_number_setting("RFTWEB_TRAINER_TURN_SECONDS", 60, minimum=1)
# Memory of all loaded models of one explorer or trainer, up to which more stay loaded than the
# numbers above say; None: a quarter of the machine's memory.
RESIDENT_MEMORY_MB = environment.read_number_setting("RFTWEB_RESIDENT_MEMORY_MB", None)
# Resources of an engine: threads of the embedded one, and vLLM's share of a GPU's memory (a trainer
# may use the same GPU).
ENGINE_THREADS = environment.read_number_setting("RFTWEB_ENGINE_THREADS", 1, minimum=1)
# Threads of a run's trainer and its engine if the two take turns (max_staleness 0). None: the
# trainer follows OMP_NUM_THREADS, and the engine the number above.
TURN_THREADS = environment.read_number_setting("RFTWEB_TURN_THREADS", None, minimum=1)
# Where the processes of a run's trainer that other machines start join it, host:port; and how many
# of its processes the trainer's own machine starts. Neither: all run there, and meet on loopback.
TRAINER_RENDEZVOUS = environment.host_and_port("RFTWEB_TRAINER_RENDEZVOUS")
TRAINER_RANKS_HERE = environment.read_number_setting("RFTWEB_TRAINER_RANKS_HERE", None, minimum=1)
environment.require_both(
    RFTWEB_TRAINER_RENDEZVOUS=TRAINER_RENDEZVOUS, RFTWEB_TRAINER_RANKS_HERE=TRAINER_RANKS_HERE
)
GPU_MEMORY_PERCENT = environment.read_number_setting(
    "RFTWEB_GPU_MEMORY_PERCENT", 85, minimum=1, maximum=99
)
# GPUs of each explorer and of each trainer that the supervisor starts; empty: it deals them out.
EXPLORER_GPUS = environment.gpus_by_worker("RFTWEB_EXPLORER_GPU")
TRAINER_GPUS = environment.gpus_by_worker("RFTWEB_TRAINER_GPU")
# How long a worker may be silent before another takes its work, and how long one job lasts, in
# seconds.
LEASE_SECONDS = environment.read_number_setting("RFTWEB_LEASE_SECONDS", 30, minimum=2)
SLICE_SECONDS = environment.read_number_setting("RFTWEB_SLICE_SECONDS", 10, minimum=1)
# Requests per second of one API token, averaged over a few seconds; more are answered 429.
REQUESTS_PER_SECOND = environment.read_number_setting("RFTWEB_REQUESTS_PER_SECOND", 200, minimum=1)
# HTTP and WebSocket connections that one web process keeps open; more are answered 503.
CONNECTIONS_PER_PROCESS = environment.read_number_setting("RFTWEB_CONNECTIONS", 2_000, minimum=10)

# Age up to which /metrics reuses a user's response instead of querying the database.
METRICS_SECONDS = environment.read_number_setting("RFTWEB_METRICS_SECONDS", 5)

# The Hub that weights are pushed to: a token for users who enter none, and the URL of another Hub.
HUB_TOKEN = environment.text("RFTWEB_HUB_TOKEN")
HUB_ENDPOINT = environment.web_address("HF_ENDPOINT")

# The OpenTelemetry collector's base URL for `manage.py traces`. Empty: none.
TRACES_ENDPOINT = environment.web_address("OTEL_EXPORTER_OTLP_ENDPOINT")

DATABASE_URL = environment.service_url(
    "DATABASE_URL", ("postgresql", "postgres"), "postgresql://user:password@host/name"
)
REDIS_URL = environment.service_url(
    "REDIS_URL", ("redis", "rediss", "unix"), "redis://:password@host:6379/0"
)
if not (DATABASE_URL and REDIS_URL):
    from rftweb import embedded

    _embedded_database, _embedded_redis = embedded.urls(VAR)
    DATABASE_URL = DATABASE_URL or _embedded_database
    REDIS_URL = REDIS_URL or _embedded_redis

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "channels",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "apps.plugins",
    "apps.accounts",
    "apps.tasksets",
    "apps.policies",
    "apps.streaming",
    "apps.runs",
    "apps.rollouts",
    "apps.buffer",
    "apps.rewards",
    "apps.pipelines",
    "apps.environments",
    "apps.feedback",
    "apps.evaluation",
    "apps.alerts",
    "apps.dashboard",
    "rftweb",
]

MIDDLEWARE = [
    "rftweb.metrics.process.TimingMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "rftweb.static_files.CompressedStatic",
    "rftweb.compressed_pages.CompressedPages",
    "csp.middleware.CSPMiddleware",
    "rftweb.response_headers.ResponseHeaders",
    "rftweb.methods.MethodsOfPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "apps.accounts.second_factor.StaffSecondFactor",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "rftweb.null_bytes.NulRefused",
    "rftweb.database_unavailable.DatabaseUnavailable",
]

ROOT_URLCONF = "rftweb.urls"
ASGI_APPLICATION = "rftweb.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FILES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.debug",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.dashboard.context.frame",
                "apps.accounts.oidc.offered",
            ],
        },
    }
]

# A statement, lock wait or idle transaction that exceeds these is a bug, never a normal state.
DATABASE_TIMEOUTS = (
    "-c statement_timeout=60000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000"
)
# Prepared statements are planned once: our statements are written so that the right index is used
# for any value.
PLAN_ONCE = "-c plan_cache_mode=force_generic_plan"
# Scans that end early are estimated as if they read everything; compiling them takes ten times as
# long as running them.
NOT_COMPILED = "-c jit=off"
DATABASES = {
    "default": dj_database_url.parse(DATABASE_URL, conn_max_age=60, conn_health_checks=True)
}
DATABASES["default"].setdefault("OPTIONS", {}).update(
    connect_timeout=5,
    options=f"{DATABASE_TIMEOUTS} {PLAN_ONCE} {NOT_COMPILED}",
    prepare_threshold=2 if environment.read_flag("RFTWEB_PREPARE", True) else None,
)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py 8 gives every socket a 5 s timeout, which closes idle WebSockets: none on
        # blocking connections.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}], "prefix": "rftweb"},
    }
}


def broker_url(redis_url: str) -> str:
    """Convert a Redis URL to Kombu's form.

    `unix://` sockets are `redis+socket://`, the database is `virtual_host`.
    """
    if redis_url.startswith("unix://"):
        return redis_url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
    return redis_url


CELERY_BROKER_URL = broker_url(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Jobs are much shorter than this; the sweep sends wake-ups again after a lost message.
    "visibility_timeout": 6 * 3600,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": None,
    "socket_connect_timeout": 5,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Celery would close the database connection around each job. Jobs keep it as web requests do: for
# CONN_MAX_AGE, and while they work (workers.processes).
CELERY_DB_REUSE_MAX = 10**9
CELERY_TASK_QUEUES = [Queue(name) for name in ("explore", "score", "refine", "train", "control")]
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_ROUTES = {
    "explore": {"queue": "explore"},
    "score": {"queue": "score"},
    "refine": {"queue": "refine"},
    "train": {"queue": "train"},
    "sweep": {"queue": "control"},
    "summarize": {"queue": "control"},
    "check_reward_hacking": {"queue": "control"},
    "evaluate_alerts": {"queue": "control"},
    "deliver_alerts": {"queue": "control"},
    "apply_retention": {"queue": "control"},
    "import_tasksets": {"queue": "control"},
    "run_exports": {"queue": "control"},
    "import_models": {"queue": "control"},
    "delete_runs": {"queue": "control"},
    "send_invitations": {"queue": "control"},
    "send_due_jobs": {"queue": "control"},
}
CELERY_IMPORTS = [
    "workers.explorer.job",
    "workers.scorer",
    "workers.refiner",
    "workers.trainer.job",
    "workers.coordinator",
    "workers.reward_hacking",
    "workers.alert_jobs",
    "workers.mailing",
    "workers.due_work",
    "workers.retention",
    "workers.importing.job",
    "workers.export_jobs.job",
    "workers.model_imports.job",
    "workers.run_removal.job",
    "workers.processes",
    "workers.control_worker",
    "workers.worker_wakeups",
    "workers.beat",
]
# Beat sends a job only if it is neither queued nor running (workers.beat); stages wake each other
# (workers.worker_wakeups). Web processes send wake-ups for what they create, without waiting for
# beat.
CELERY_BEAT_SCHEDULER = "workers.beat:CoalescingScheduler"
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "sweep", "schedule": 5.0},
    "summarize": {"task": "summarize", "schedule": 30.0},
    "check_reward_hacking": {"task": "check_reward_hacking", "schedule": 15.0},
    "evaluate_alerts": {"task": "evaluate_alerts", "schedule": 10.0},
    "apply_retention": {"task": "apply_retention", "schedule": 600.0},
    "send_due_jobs": {"task": "send_due_jobs", "schedule": 10.0},  # sends jobs that are due
}

# Stores the counts of login attempts: shared by all web processes, and available without Redis.
CACHES = {"default": {"BACKEND": "rftweb.json_cache.JsonCache", "LOCATION": "cache_entry"}}

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "apps.accounts.sessions.SignedIn",
    "allauth.account.auth_backends.AuthenticationBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "apps.accounts.passwords.HardToGuess"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "apps.accounts.adapter.InviteOnlyAdapter"
ACCOUNT_FORMS = {"login": "apps.accounts.login_form.LoginForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # strangers cannot make the installation send e-mail
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
PASSWORD_RESET_TIMEOUT = 24 * 3600  # seconds that a reset link works

# Sign-in by OpenID Connect; without an issuer, by password only. The role, as project:role, is that
# of a new account; empty: it belongs to no project until somebody invites it.
OIDC_ISSUER = environment.web_address("RFTWEB_OIDC_ISSUER")
OIDC_CLIENT_ID = environment.text("RFTWEB_OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = environment.text("RFTWEB_OIDC_CLIENT_SECRET")
OIDC_NAME = environment.text("RFTWEB_OIDC_NAME", "single sign-on")
OIDC_ROLE = environment.project_role("RFTWEB_OIDC_ROLE")
environment.require_together(
    RFTWEB_OIDC_ISSUER=OIDC_ISSUER,
    RFTWEB_OIDC_CLIENT_ID=OIDC_CLIENT_ID,
    RFTWEB_OIDC_CLIENT_SECRET=OIDC_CLIENT_SECRET,
)


def oidc_app(issuer: str, client_id: str, secret: str, name: str) -> dict:
    """Return allauth's description of the provider, which is none without an issuer."""
    app = {
        "provider_id": "oidc",
        "name": name,
        "client_id": client_id,
        "secret": secret,
        "settings": {"server_url": issuer},
    }
    return {"openid_connect": {"APPS": [app] if issuer else [], "OAUTH_PKCE_ENABLED": True}}


SOCIALACCOUNT_PROVIDERS = oidc_app(OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_NAME)
SOCIALACCOUNT_ADAPTER = "apps.accounts.oidc.OidcAdapter"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # an address is no proof of who somebody is
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_QUERY_EMAIL = False
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10  # seconds

SESSION_ENGINE = "apps.accounts.sessions"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_SAVE_EVERY_REQUEST = False
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # requested internally, without the proxy
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20

CONTENT_SECURITY_POLICY = {
    # rftweb.response_headers adds what the administration's theme needs, for its pages alone.
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        # A browser follows the form of the login page to the provider only if both are named.
        "form-action": ["'self'", *environment.origins(OIDC_ISSUER)],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
        "object-src": ["'none'"],
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.BearerToken",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["apps.accounts.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "apps.accounts.openapi.Schema",
    "DEFAULT_METADATA_CLASS": None,  # OPTIONS would show everybody how a view is written
    "DEFAULT_THROTTLE_CLASSES": ["apps.accounts.rates.TokenRate"],
    "EXCEPTION_HANDLER": "apps.accounts.problems.handle_rest_error",
    "URL_FORMAT_OVERRIDE": None,  # the format is chosen by the Accept header
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "rftweb",
    "OAS_VERSION": "3.1.0",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "RunState": "apps.runs.models.Run.State",
        "RolloutState": "apps.rollouts.models.Rollout.State",
        "EpisodeState": "apps.environments.models.Episode.State",
        "ImportState": "apps.tasksets.models.TasksetImport.State",
        "DeletionState": "apps.runs.models.Removal.State",
        "ModelImportState": "apps.policies.models.PolicyImport.State",
        "ModelKind": "apps.policies.models.PolicyImport.Kind",
    },
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [FILES / "static"]
# Served directly from the source folders, found once at start: no collect step between an edit and
# the page.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# E-mail, for alerts, invitations and password resets; without a server none is sent, and pages say
# so.
EMAIL_HOST = environment.host_name("RFTWEB_EMAIL_HOST")
EMAIL_SECURITY = environment.choice(
    "RFTWEB_EMAIL_SECURITY", "starttls", ("starttls", "tls", "none")
)
EMAIL_USE_TLS = EMAIL_SECURITY == "starttls"
EMAIL_USE_SSL = EMAIL_SECURITY == "tls"
EMAIL_PORT = environment.read_number_setting(
    "RFTWEB_EMAIL_PORT", {"starttls": 587, "tls": 465, "none": 25}[EMAIL_SECURITY], 1, 65_535
)
EMAIL_HOST_USER = environment.text("RFTWEB_EMAIL_USER")
EMAIL_HOST_PASSWORD = environment.text("RFTWEB_EMAIL_PASSWORD")
DEFAULT_FROM_EMAIL = environment.mail_sender("RFTWEB_EMAIL_FROM", "rftweb@localhost")
EMAIL_TIMEOUT = 10  # seconds

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

LOG_FORMATS = ("console", "json")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOGGING_CONFIG = "rftweb.logs.configure"
LOGGING = {
    "format": environment.choice("RFTWEB_LOG_FORMAT", "console", LOG_FORMATS),
    "level": environment.choice("RFTWEB_LOG_LEVEL", "INFO", LOG_LEVELS),
}
