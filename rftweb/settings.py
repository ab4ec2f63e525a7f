"""Settings of the installation, read once from environment variables that fail loudly.

A run's own knobs are not here: they are `apps.runs.config.RunConfig`, stored on the Run.
"""

from pathlib import Path

import dj_database_url
from kombu import Queue

from rftweb import environment
from rftweb.administration.look import UNFOLD  # noqa: F401  (django-unfold reads it)

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(environment.text("RFTWEB_VAR", str(BASE_DIR / "var"))).resolve()

DEBUG = environment.flag("RFTWEB_DEBUG", False)
SECRET_KEY = environment.secret_key(VAR, DEBUG)
ALLOWED_HOSTS = environment.names("RFTWEB_HOSTS", "localhost,127.0.0.1,[::1]")
# Where people reach this installation, for links in what is told outside of it; empty leaves links out.
SITE_ADDRESS = environment.web_address("RFTWEB_ADDRESS")
CSRF_TRUSTED_ORIGINS = environment.names("RFTWEB_ORIGINS")
HTTPS = environment.flag("RFTWEB_HTTPS", False)
# Whether administrators must set up a second factor before they may do anything else.
REQUIRE_MFA_FOR_STAFF = environment.flag("RFTWEB_REQUIRE_MFA_FOR_STAFF", False)
# What inside this network environments may be called at; the outside may be on the ports of http and https.
ENVIRONMENT_HOSTS = environment.places("RFTWEB_ENVIRONMENT_HOSTS")
# Which secret a service that we call is shown, a judge's or an environment's: host=VARIABLE, the variable with the secret.
# It goes to that host alone.
JUDGE_KEYS = environment.secrets_of_hosts("RFTWEB_JUDGE_KEYS")
ENVIRONMENT_KEYS = environment.secrets_of_hosts("RFTWEB_ENVIRONMENT_KEYS")
# Tasksets of the verifiers package that may be played, the interpreter that has it, and folders of tasksets beside.
VERIFIERS_TASKSETS = environment.names("RFTWEB_VERIFIERS")
VERIFIERS_PYTHON = Path(environment.text("RFTWEB_VERIFIERS_PYTHON", str(BASE_DIR / ".venv-verifiers" / "bin" / "python")))
VERIFIERS_PATH = ":".join(str(Path(folder).resolve()) for folder in environment.text("RFTWEB_VERIFIERS_PATH").split(":") if folder)
# The interpreter that has the data-juicer package, whose filters pipelines may name.
DATA_JUICER_PYTHON = Path(environment.text("RFTWEB_DATA_JUICER_PYTHON", str(BASE_DIR / ".venv-data-juicer" / "bin" / "python")))

# Weights and checkpoints: explorers and trainers must see the same folder.
WEIGHTS_ROOT = Path(environment.text("RFTWEB_WEIGHTS", str(VAR / "weights"))).resolve()
# A machine without that folder fetches weights from a web process that has it, at this address; a
# web process gives them to whoever proves that he has the secret. Empty: nobody fetches.
WEIGHTS_URL = environment.web_address("RFTWEB_WEIGHTS_URL")
WEIGHTS_SECRET = environment.shared_secret("RFTWEB_WEIGHTS_SECRET")
environment.require_together(RFTWEB_WEIGHTS_URL=WEIGHTS_URL, RFTWEB_WEIGHTS_SECRET=WEIGHTS_SECRET)
# How much of what was fetched is kept; what was not used for longest goes first.
WEIGHTS_CACHE_MB = environment.number("RFTWEB_WEIGHTS_CACHE_MB", 100_000, at_least=1)
# Files that are to become tasksets, until they are; on several machines a shared folder, as for weights.
IMPORTS_ROOT = Path(environment.text("RFTWEB_IMPORTS", str(VAR / "imports"))).resolve()
# Days after which ended runs that say nothing of their own let go of their rollouts' arrays; 0 keeps them.
RETENTION_DAYS = environment.number("RFTWEB_RETENTION_DAYS", 0, at_most=36_500)
# How many lines of its processes' logs the installation keeps as rows, and for how long; 0 lines keeps none.
LOG_ROWS = environment.number("RFTWEB_LOG_ROWS", 1_000_000, at_most=100_000_000)
LOG_DAYS = environment.number("RFTWEB_LOG_DAYS", 14, at_least=1, at_most=3_650)
ENGINES_PER_WORKER = environment.number("RFTWEB_ENGINES_PER_WORKER", 4, at_least=1)
# Where engines are fewer than runs: seconds after which one makes room for a run that nobody serves.
ENGINE_TURN_SECONDS = environment.number("RFTWEB_ENGINE_TURN_SECONDS", 60, at_least=1)
TRAINERS_PER_WORKER = environment.number("RFTWEB_TRAINERS_PER_WORKER", 2, at_least=1)
# Where a trainer cannot hold all runs with work: how long a run keeps its seat, and the shortest
# time between two builds of its trainer.
TRAINER_TURN_SECONDS = environment.number("RFTWEB_TRAINER_TURN_SECONDS", 60, at_least=1)
# Memory of all loaded models of one explorer or trainer up to which more stay loaded than the
# numbers above say; None: a quarter of the machine's memory.
RESIDENT_MEMORY_MB = environment.number("RFTWEB_RESIDENT_MEMORY_MB", None)
# What an engine takes: threads of the embedded one, and of a GPU's memory vLLM's share (a trainer may live there too).
ENGINE_THREADS = environment.number("RFTWEB_ENGINE_THREADS", 1, at_least=1)
# Threads of a run's trainer and of its engine where the two take turns (max_staleness 0): None leaves
# the trainer what OMP_NUM_THREADS says, and the engine the number above.
TURN_THREADS = environment.number("RFTWEB_TURN_THREADS", None, at_least=1)
GPU_MEMORY_PERCENT = environment.number("RFTWEB_GPU_MEMORY_PERCENT", 85, at_least=1, at_most=99)
# How long a worker may be silent before another takes its work, and how long one job lasts, in seconds.
LEASE_SECONDS = environment.number("RFTWEB_LEASE_SECONDS", 30, at_least=2)
SLICE_SECONDS = environment.number("RFTWEB_SLICE_SECONDS", 10, at_least=1)
# What one token may ask of REST, averaged over a few seconds; whoever goes beyond it is told to wait.
REQUESTS_PER_SECOND = environment.number("RFTWEB_REQUESTS_PER_SECOND", 200, at_least=1)
# HTTP and WebSocket connections that one web process keeps open; a further one is answered 503.
CONNECTIONS_PER_PROCESS = environment.number("RFTWEB_CONNECTIONS", 2_000, at_least=10)

# How old what /metrics tells a person of runs may be: within that the database is not asked again.
METRICS_SECONDS = environment.number("RFTWEB_METRICS_SECONDS", 5)

# Where weights are pushed to: the Hub's token for those who type none, and another Hub's address.
HUB_TOKEN = environment.text("RFTWEB_HUB_TOKEN")
HUB_ENDPOINT = environment.web_address("HF_ENDPOINT")

# Where `manage.py traces` sends what became of groups: an OpenTelemetry collector's base address. Empty: nowhere.
TRACES_ENDPOINT = environment.text("OTEL_EXPORTER_OTLP_ENDPOINT")

DATABASE_URL, REDIS_URL = environment.text("DATABASE_URL"), environment.text("REDIS_URL")
if not (DATABASE_URL and REDIS_URL):
    from rftweb import embedded

    _embedded_database, _embedded_redis = embedded.urls(VAR)
    DATABASE_URL, REDIS_URL = DATABASE_URL or _embedded_database, REDIS_URL or _embedded_redis

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
    "channels",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
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
    "apps.alerts",
    "apps.dashboard",
    "rftweb",
]

MIDDLEWARE = [
    "rftweb.metrics.process.Timed",
    "django.middleware.security.SecurityMiddleware",
    "rftweb.static_files.CompressedStatic",
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
    "rftweb.unstorable.NulRefused",
    "rftweb.outage.DatabaseAway",
]

ROOT_URLCONF = "rftweb.urls"
ASGI_APPLICATION = "rftweb.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.debug",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.dashboard.context.frame",
            ],
        },
    }
]

# A statement, a lock wait or an idle transaction that exceeds these is a fault, never a state to live in.
DATABASE_TIMEOUTS = "-c statement_timeout=60000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000"
# What is prepared is planned once: its statements say by themselves which index each part goes by.
PLAN_ONCE = "-c plan_cache_mode=force_generic_plan"
# What looks through a bounded stretch is estimated as if it read all; to compile it takes ten times what it does.
NOT_COMPILED = "-c jit=off"
DATABASES = {"default": dj_database_url.parse(DATABASE_URL, conn_max_age=60, conn_health_checks=True)}
DATABASES["default"].setdefault("OPTIONS", {}).update(
    connect_timeout=5,
    options=f"{DATABASE_TIMEOUTS} {PLAN_ONCE} {NOT_COMPILED}",
    prepare_threshold=2 if environment.flag("RFTWEB_PREPARE", True) else None,
)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py 8 gives every socket a 5 s timeout, which closes idle WebSockets: none on blocking connections.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}], "prefix": "rftweb"},
    }
}


def broker_url(redis_url: str) -> str:
    """Kombu's spelling of a Redis URL: `unix://` sockets are `redis+socket://`, the database is `virtual_host`."""
    if redis_url.startswith("unix://"):
        return redis_url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
    return redis_url


CELERY_BROKER_URL = broker_url(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Slices are shorter than this by far; the sweep re-rings whatever a lost message leaves behind.
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
# CONN_MAX_AGE, and while it works (workers.processes).
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
    "watch": {"queue": "control"},
    "alert": {"queue": "control"},
    "tell": {"queue": "control"},
    "retain": {"queue": "control"},
    "import": {"queue": "control"},
    "fill_orders": {"queue": "control"},
}
CELERY_IMPORTS = [
    "workers.explorer.job",
    "workers.scorer",
    "workers.refiner",
    "workers.trainer.job",
    "workers.coordinator",
    "workers.watching",
    "workers.alerting",
    "workers.retaining",
    "workers.importing.job",
    "workers.orders.job",
    "workers.processes",
    "workers.control",
    "workers.station_wakeups",
    "workers.clock",
]
# Beat sends a job only if it neither waits nor runs (workers.clock); stations wake themselves
# (workers.station_wakeups). What the web processes create they send by themselves, without waiting for beat.
CELERY_BEAT_SCHEDULER = "workers.clock:CoalescingScheduler"
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "sweep", "schedule": 5.0},
    "summarize": {"task": "summarize", "schedule": 30.0},
    "watch": {"task": "watch", "schedule": 15.0},
    "alert": {"task": "alert", "schedule": 10.0},
    "tell": {"task": "tell", "schedule": 10.0},
    "retain": {"task": "retain", "schedule": 600.0},
    "import": {"task": "import", "schedule": 10.0},
    "fill_orders": {"task": "fill_orders", "schedule": 10.0},
}

# Holds the counts of login attempts: shared by all web processes, and there while Redis is not.
CACHES = {"default": {"BACKEND": "rftweb.json_cache.JsonCache", "LOCATION": "cache_entry"}}

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "apps.accounts.sessions.SignedIn",
    "allauth.account.auth_backends.AuthenticationBackend",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "apps.accounts.passwords.HardToGuess"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "apps.accounts.adapter.InviteOnlyAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"

SESSION_ENGINE = "apps.accounts.sessions"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_SAVE_EVERY_REQUEST = False
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # asked from inside, without the proxy
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
        "form-action": ["'self'"],
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
    "DEFAULT_METADATA_CLASS": None,  # OPTIONS would tell everybody how a view is written
    "DEFAULT_THROTTLE_CLASSES": ["apps.accounts.rates.TokenRate"],
    "EXCEPTION_HANDLER": "apps.accounts.problems.handler",
    "URL_FORMAT_OVERRIDE": None,  # what is answered is said in Accept
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
    },
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served straight from the source folders, found once at start: no collect step between an edit and the page.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Mail, for alerts alone; without a server none is sent, and pages say so.
EMAIL_HOST = environment.text("RFTWEB_EMAIL_HOST")
EMAIL_SECURITY = environment.choice("RFTWEB_EMAIL_SECURITY", "starttls", ("starttls", "tls", "none"))
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_SECURITY == "starttls", EMAIL_SECURITY == "tls"
EMAIL_PORT = environment.number("RFTWEB_EMAIL_PORT", {"starttls": 587, "tls": 465, "none": 25}[EMAIL_SECURITY], 1, 65_535)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = environment.text("RFTWEB_EMAIL_USER"), environment.text("RFTWEB_EMAIL_PASSWORD")
DEFAULT_FROM_EMAIL = environment.text("RFTWEB_EMAIL_FROM", "rftweb@localhost")
EMAIL_TIMEOUT = 10  # seconds

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

LOG_FORMATS, LOG_LEVELS = ("console", "json"), ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOGGING_CONFIG = "rftweb.logs.configure"
LOGGING = {
    "format": environment.choice("RFTWEB_LOG_FORMAT", "console", LOG_FORMATS),
    "level": environment.choice("RFTWEB_LOG_LEVEL", "INFO", LOG_LEVELS),
}
