"""Django's settings: wiring only, everything that a site changes comes from the environment.

docs/reference/settings.md lists every variable; tests/test_docs.py fails when one is missing there.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from config import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(
    env.text("FETTLE_DATA", str(BASE_DIR / "data"), about="Folder of the database, the telemetry, the logs and the secrets.")
).resolve()
DEBUG = env.boolean(
    "FETTLE_DEBUG", False, about="Django's debug mode. Never on a network: it shows internals and needs no secret key."
)

SECRET_KEY = (
    env.secret(
        "FETTLE_SECRET_KEY",
        DATA_DIR / "secret-key",
        about="Signs sessions; at least 32 characters. `FETTLE_SECRET_KEY_FILE` names a file whose first line it is. Neither: DATA/secret-key, which `make up` writes.",
    )
    if not DEBUG
    else "debug " * 8
)
ALLOWED_HOSTS = env.words(
    "FETTLE_ALLOWED_HOSTS",
    "127.0.0.1,localhost,[::1]",
    about="Host names that the server answers to; browsers' WebSockets must come from one.",
)
CSRF_TRUSTED_ORIGINS = env.words(
    "FETTLE_TRUSTED_ORIGINS", about="Origins whose forms are taken when a proxy changes the host, with scheme."
)
for _origin in CSRF_TRUSTED_ORIGINS:
    if not _origin.startswith(("https://", "http://")):
        raise env.SettingError(f"FETTLE_TRUSTED_ORIGINS has {_origin!r}, which names no scheme; write https://{_origin}.")

INSTALLED_APPS = [
    "fleet.accounts",
    "fleet.inventory",
    "fleet.commands",
    "fleet.benches",
    "fleet.annotations",
    "fleet.profiles",
    "fleet.store",
    "fleet.tuning",
    "fleet.ingest",
    "fleet.jobs",
    "fleet.slow",
    "fleet.findings",
    "fleet.reports",
    "fleet.verdicts",
    "fleet.watch",
    "fleet.notify",
    "fleet.live",
    "fleet.api",
    "fleet.dashboard",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "fleet.dashboard.csp.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
            ],
            "builtins": ["fleet.dashboard.templatetags.units"],
        },
    }
]


def _database(url: str) -> dict[str, object]:
    """A Django database from `sqlite:///path` or `postgresql://user:password@host:port/name`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": parts.path,
            "OPTIONS": {
                "timeout": 20,
                # Writers queue at BEGIN instead of failing half way; readers never wait for a writer.
                "transaction_mode": "IMMEDIATE",
                # FULL: an event is acked once committed, and its agent then forgets it; with NORMAL a loss of power could take
                # the last commits back. A commit of one row takes 0.2 ms in place of 0.01 ms where syncing is quick (measured on
                # a virtual disk), some milliseconds on a slow disk; a site commits a few times a second, in groups.
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
            },
        }
    if parts.scheme in ("postgres", "postgresql"):
        if not env.names_host(url):
            raise env.SettingError(f"DATABASE_URL cannot be used: {env.NO_HOST}")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.lstrip("/"),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": parts.port or "",
            "CONN_MAX_AGE": 60,
        }
    raise env.SettingError(f"DATABASE_URL begins with {parts.scheme!r}; use sqlite:///path or postgresql://…")


DATABASES = {
    "default": _database(
        env.password(
            "DATABASE_PASSWORD_FILE",
            env.text(
                "DATABASE_URL",
                f"sqlite:///{DATA_DIR / 'fettle.sqlite3'}",
                about="Database of nodes, findings and people: `sqlite:///path` or `postgresql://user:password@host:port/name`.",
            ),
            "DATABASE_URL",
            about="File whose first line is the database's password, where DATABASE_URL holds none.",
        )
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
_static_root = env.text(
    "FETTLE_STATIC_ROOT", "", about="Where `collectstatic` puts scripts and styles; empty: they are served from where they lie."
)
STATIC_ROOT = Path(_static_root) if _static_root else None
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

_https = env.boolean(
    "FETTLE_HTTPS", False, about="A proxy terminates TLS in front: cookies become Secure and X-Forwarded-Proto is believed."
)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SECURE_SSL_REDIRECT = False
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "fleet.api.authentication.BearerToken",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["fleet.api.bodies.Json"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "fleet.api.pagination.Page",
    "EXCEPTION_HANDLER": "fleet.api.errors.handle",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "PAGE_SIZE": 100,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Fettle",
    "VERSION": "v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "fleet.api.schema.with_problems",
    ],
    "ENUM_NAME_OVERRIDES": {
        "CommandStateEnum": "fleet.commands.models.STATES",
        "HealthStateEnum": "fleet.health.signs.STATES",
        "JobStateEnum": "fleet.jobs.models.STATES",
        "JobSourceEnum": "fleet.jobs.models.SOURCES",
        "StateEnum": "fleet.api.serializers.STATES",
        "RuleStateEnum": "fleet.tuning.models.STATES",
        "MatcherEnum": "fleet.tuning.models.MATCHERS",
        "XidKindEnum": "fleet.tuning.xids.KINDS",
        "XidMatcherEnum": "fleet.tuning.xids.MATCHERS",
        "XidFaultEnum": "fleet.findings.xid_codes.FAULTS",
        "XidRuleEnum": "fleet.tuning.xids.RULES",
        "RuleScopeEnum": "fleet.api.rules.SCOPES",
        "OwnRuleScopeEnum": "advisor.conditions.SCOPES",
        "DeliveryStateEnum": "fleet.notify.models.DELIVERY_STATES",
        "DeliveryKindEnum": "fleet.notify.models.KINDS",
        "CommandWhatEnum": "fleet.commands.models.WHAT",
        "AlertAfterEnum": "fleet.notify.dry_run.AFTERS",
        "WayEnum": "fleet.notify.decisions.WHATS",
        "SeverityEnum": "advisor.finding.SEVERITIES",
        "AlertLabelEnum": "fleet.notify.models.LABELS",
    },
}

REDIS_URL = env.password(
    "REDIS_PASSWORD_FILE",
    env.url(
        "REDIS_URL",
        f"unix://{DATA_DIR / 'run' / 'valkey.sock'}",
        ("redis", "rediss", "unix"),
        about="Broker, Redis or Valkey: `redis://host:port/0` or `unix:///path`. Unset: `make up` starts an embedded one.",
    ),
    "REDIS_URL",
    about="File whose first line is the broker's password, where REDIS_URL holds none.",
)
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TIME_LIMIT = 120
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 300,
    # A sender gives up at once when the broker is away: whatever it wanted done is a row that a sweep finds.
    "max_retries": 0,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.1,
}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

# What links in messages begin with.
_served_at = DATA_DIR / "base-url"
FETTLE_BASE_URL = env.url(
    "FETTLE_BASE_URL",
    _served_at.read_text().strip() if _served_at.is_file() else "http://127.0.0.1:8000",
    ("https", "http"),
    about="Where people reach the pages; links in messages begin with it. Unset: where `make up` last served this DATA.",
)

# Where telemetry lies, how long the advisor looks back, how often it looks.
FETTLE_STORE = env.choice(
    "FETTLE_STORE",
    "parquet",
    ("parquet", "victoriametrics", "prometheus-read", "memory"),
    about="Engine of the telemetry: `parquet`, on this machine's disk; `victoriametrics`; `prometheus-read`, a Prometheus that scrapes dcgm-exporter, for a fleet without our agents; `memory` keeps nothing and is for tests.",
)
FETTLE_STORE_URL = env.url(
    "FETTLE_STORE_URL",
    "http://127.0.0.1:9090" if FETTLE_STORE == "prometheus-read" else "http://127.0.0.1:8428",
    ("http", "https"),
    about="Where VictoriaMetrics or Prometheus answers, with its path prefix if it has one.",
)
FETTLE_STORE_WRITE_URL = env.text(
    "FETTLE_STORE_WRITE_URL", "", about="Where VictoriaMetrics takes samples, when that is another address: a cluster's vminsert."
)
FETTLE_STORE_STATUS_URLS = env.words(
    "FETTLE_STORE_STATUS_URLS",
    about="Pages of metrics of every process that holds samples: a cluster's vmstorages. Empty: FETTLE_STORE_URL with /metrics.",
)
FETTLE_STORE_FLEET = env.text(
    "FETTLE_STORE_FLEET", "fettle", about="Label `fleet` of all our series in VictoriaMetrics: it keeps several Fettles apart."
)
FETTLE_STORE_SELECTOR = env.text(
    "FETTLE_STORE_SELECTOR", "", about='Which series of Prometheus are this fleet\'s, as matchers: `job="dcgm",cluster="a"`.'
)
FETTLE_STORE_CLUSTER_LABEL = env.text(
    "FETTLE_STORE_CLUSTER_LABEL",
    "cluster",
    about="Label of Prometheus' series that tells clusters apart (`prometheus-read`): where a series has it, its node is named `host@cluster`. Empty: none does.",
)
FETTLE_STORE_USER = env.text("FETTLE_STORE_USER", "", about="User name for the store's server (HTTP basic authentication).")
FETTLE_STORE_PASSWORD_FILE = env.text("FETTLE_STORE_PASSWORD_FILE", "", about="File whose first line is that user's password.")
FETTLE_STORE_TOKEN_FILE = env.text(
    "FETTLE_STORE_TOKEN_FILE", "", about="File whose first line is a bearer token for the store's server."
)
FETTLE_STORE_HEADERS = env.words(
    "FETTLE_STORE_HEADERS", about="More headers for the store's server, with commas between: `X-Scope-OrgID: fleet`."
)
FETTLE_STORE_CA_FILE = env.text(
    "FETTLE_STORE_CA_FILE", "", about="Certificates (PEM) that vouch for the store's server, in place of the system's."
)
FETTLE_STORE_TIMEOUT_S = env.integer(
    "FETTLE_STORE_TIMEOUT_S",
    30,
    1,
    600,
    about="Longest silence of the store's server before a request has failed; an answer that only drips has twice as long.",
)
FETTLE_STORE_DIR = DATA_DIR / "series"
FETTLE_AGENT_FILE = env.text(
    "FETTLE_AGENT_FILE",
    str(BASE_DIR / "dist" / "fettle-agent.pyz"),
    about="The agent as one file, which `/agent/install.sh` installs on nodes; `make agent` builds it.",
)
# Telemetry as it was measured and as roll-ups; of each resolution at least as long as of the finer ones.
FETTLE_RETAIN_RAW_H = env.integer(
    "FETTLE_RETAIN_RAW_H", 24, 1, 8784, about="Hours of one-second telemetry to keep; whole days go at a time."
)
FETTLE_RETAIN_10S_D = env.integer("FETTLE_RETAIN_10S_D", 7, 1, 3660, about="Days of ten-second roll-ups to keep.")
FETTLE_RETAIN_1M_D = env.integer("FETTLE_RETAIN_1M_D", 90, 1, 3660, about="Days of one-minute roll-ups to keep.")
FETTLE_RETAIN_1H_D = env.integer(
    "FETTLE_RETAIN_1H_D", 730, 1, 36_500, about="Days of one-hour roll-ups to keep; thirty days go at a time."
)
env.rises(
    {
        "FETTLE_RETAIN_RAW_H": FETTLE_RETAIN_RAW_H / 24,
        "FETTLE_RETAIN_10S_D": FETTLE_RETAIN_10S_D,
        "FETTLE_RETAIN_1M_D": FETTLE_RETAIN_1M_D,
        "FETTLE_RETAIN_1H_D": FETTLE_RETAIN_1H_D,
    },
    "days",
)
FETTLE_STORE_GB = env.integer(
    "FETTLE_STORE_GB",
    0,
    0,
    1_000_000,
    about="Most GB (1,000,000,000 bytes) that telemetry may take: over it the oldest one-second hours go first, then the oldest roll-ups. 0: no limit.",
)
FETTLE_RETAIN_EVENTS_D = env.integer(
    "FETTLE_RETAIN_EVENTS_D",
    90,
    31,
    36_500,
    about="Days to keep events, and absences, diagnoses, processes, runs of jobs and engines that are over; annotations of jobs and engines that say no end.",
)
FETTLE_RETAIN_FINDINGS_D = env.integer(
    "FETTLE_RETAIN_FINDINGS_D",
    365,
    1,
    36_500,
    about="Days to keep resolved findings, with their history and messages, bench runs and profiles.",
)
FETTLE_RETAIN_ALLOCATIONS_D = env.integer(
    "FETTLE_RETAIN_ALLOCATIONS_D",
    365,
    31,
    36_500,
    about="Days to keep, of jobs that have ended, which GPUs each held from when until when, and whole jobs that only processes showed and that did no work. Their reports stay.",
)
FETTLE_RETAIN_JOBS_D = env.integer(
    "FETTLE_RETAIN_JOBS_D",
    0,
    0,
    36_500,
    about="Days to keep jobs that have ended, with their reports; one whose runs are still compared with stays as long as those (`FETTLE_RETAIN_EVENTS_D`). 0: for ever.",
)
FETTLE_METRICS_GPUS = env.boolean(
    "FETTLE_METRICS_GPUS",
    False,
    about="Whether `/metrics/gpus` tells a Prometheus the newest readings of every GPU, host and serving engine.",
)
# What was stored, to the site's own time series database too.
FETTLE_FORWARD_URL = env.text(
    "FETTLE_FORWARD_URL",
    "",
    about="Where telemetry is sent as well, once it is stored, by Prometheus remote write: `https://prometheus.example.org:9090/api/v1/write`. Empty: nowhere.",
)
FETTLE_FORWARD_METRICS = env.words(
    "FETTLE_FORWARD_METRICS",
    "gpu.*,host.*,engine.*",
    about="What is forwarded: scope and metric with `*` for any letters, commas between: `gpu.power_*,host.load_1min`. `process.*` makes new series for each program.",
)
FETTLE_FORWARD_LATE = env.boolean(
    "FETTLE_FORWARD_LATE",
    False,
    about="Whether the receiver takes samples that are older than what it has of a series: VictoriaMetrics does, Prometheus with `out_of_order_time_window`.",
)
FETTLE_FORWARD_QUEUE_MB = env.integer(
    "FETTLE_FORWARD_QUEUE_MB",
    128,
    1,
    65_536,
    about="MB (1,000,000 bytes) of telemetry that may wait for the receiver; beyond, the oldest is dropped and counted.",
)
FETTLE_FORWARD_USER = env.text("FETTLE_FORWARD_USER", "", about="User name for the receiver (HTTP basic authentication).")
FETTLE_FORWARD_PASSWORD_FILE = env.text(
    "FETTLE_FORWARD_PASSWORD_FILE", "", about="File whose first line is that user's password."
)
FETTLE_FORWARD_TOKEN_FILE = env.text(
    "FETTLE_FORWARD_TOKEN_FILE", "", about="File whose first line is a bearer token for the receiver."
)
FETTLE_FORWARD_HEADERS = env.words(
    "FETTLE_FORWARD_HEADERS", about="More headers for the receiver, with commas between: `X-Scope-OrgID: fleet`."
)
FETTLE_FORWARD_CA_FILE = env.text(
    "FETTLE_FORWARD_CA_FILE", "", about="Certificates (PEM) that vouch for the receiver, in place of the system's."
)
FETTLE_FORWARD_TIMEOUT_S = env.integer(
    "FETTLE_FORWARD_TIMEOUT_S",
    30,
    1,
    600,
    about="Longest silence of the receiver before a request has failed; an answer that only drips has twice as long.",
)
FETTLE_INGEST = env.boolean(
    "FETTLE_INGEST",
    True,
    about="Whether this web process takes agents in; `no` for processes that serve pages and the API alone.",
)
FETTLE_FLUSH_S = env.integer("FETTLE_FLUSH_S", 5, 1, 60, about="Seconds of telemetry in one write; acks and pages wait for it.")
# Telemetry that the store has not taken yet; above either bound, agents are told to keep it and send it later.
FETTLE_QUEUE_BATCHES = env.integer(
    "FETTLE_QUEUE_BATCHES",
    60_000,
    1,
    about="Batches that may wait for the writer; more are answered `busy` and sent again later.",
)
FETTLE_QUEUE_MB = env.integer(
    "FETTLE_QUEUE_MB",
    256,
    1,
    65_536,
    about="The same bound in MB (1,000,000 bytes) of memory, as estimated for decoded batches: several times their bytes on the wire.",
)
FETTLE_COMMAND_WAIT_S = env.integer(
    "FETTLE_COMMAND_WAIT_S", 300, 1, 86_400, about="Seconds that a command waits for its node, and then for the agent's answer."
)
FETTLE_ADVISOR_WINDOW_S = env.integer(
    "FETTLE_ADVISOR_WINDOW_S", 300, 20, 86_400, about="Seconds of telemetry that the advisor judges at a time."
)
FETTLE_ADVISOR_PATIENCE_S = env.integer(
    "FETTLE_ADVISOR_PATIENCE_S", 120, 0, 86_400, about="Seconds after a job's start in which it may warm up unjudged."
)
FETTLE_ADVISOR_EVERY_S = env.integer("FETTLE_ADVISOR_EVERY_S", 10, 1, 3600, about="Seconds between two looks of the advisor.")

# When what is not heard, comes late or has a wrong clock is an alert.
FETTLE_NODE_SILENT_S = env.integer(
    "FETTLE_NODE_SILENT_S",
    60,
    15,
    86_400,
    about="Seconds without anything from a node's agent after which the node counts as silent.",
)
FETTLE_SOURCE_LATE_S = env.integer(
    "FETTLE_SOURCE_LATE_S",
    30,
    5,
    86_400,
    about="Age in seconds of a node's newest sample, on arrival, from which its samples count as late.",
)
FETTLE_CLOCK_SKEW_S = env.integer(
    "FETTLE_CLOCK_SKEW_S", 5, 2, 86_400, about="Seconds by which a node's clock may be off before that is an alert."
)
FETTLE_WATCH_GRACE_S = env.integer(
    "FETTLE_WATCH_GRACE_S",
    90,
    0,
    3600,
    about="Seconds after the server's start, or after a gap in its own work, in which no node counts as silent: agents must find it first.",
)

# How advice that was applied is verified.
FETTLE_VERIFY_SPAN_S = env.integer(
    "FETTLE_VERIFY_SPAN_S",
    600,
    60,
    86_400,
    about="Seconds of steady work before and after a change that a verdict on it is made of; a run that ends earlier is taken as it is.",
)
FETTLE_VERIFY_WAIT_D = env.integer(
    "FETTLE_VERIFY_WAIT_D", 14, 1, 365, about="Days that a verdict waits for a run to compare with; then it cannot be told."
)

# What findings and plans count in.
FETTLE_GPU_HOUR_PRICE = env.number(
    "FETTLE_GPU_HOUR_PRICE",
    None,
    0,
    1e6,
    about="What an hour of one GPU costs the site. Unset: costs are told in GPU-hours alone.",
)
FETTLE_CURRENCY = env.text("FETTLE_CURRENCY", "USD", about="Currency of the prices, as it is written after them.")
FETTLE_ENERGY_PRICE_PER_KWH = env.number(
    "FETTLE_ENERGY_PRICE_PER_KWH",
    None,
    0,
    1e4,
    about="What a kilowatt-hour costs the site. Unset: energy is told without its price.",
)
FETTLE_PUE = env.number(
    "FETTLE_PUE", None, 1, 10, about="Energy of the site over that of its computers (power usage effectiveness). Unset: unknown."
)
FETTLE_MTBF_GPU_HOURS = env.number(
    "FETTLE_MTBF_GPU_HOURS",
    50_677,
    1,
    1e9,
    about="GPU-hours between two failures that end a job; checkpoint intervals follow from it. The default is that of Llama 3's pre-training: 16,384 GPUs, 54 days, 419 unplanned interruptions.",
)

FETTLE_NOTIFY_ALLOW = env.places(
    "FETTLE_NOTIFY_ALLOW",
    about="Addresses, networks and names in the site's own network that messages may go to, with commas between: `10.20.0.0/16,mail.corp`. Others there are refused; public addresses never are.",
)
FETTLE_NOTIFY_CA_FILE = env.text(
    "FETTLE_NOTIFY_CA_FILE",
    "",
    about="Certificates (PEM) that vouch for chats and webhooks by HTTPS, in place of the public ones.",
)
if FETTLE_NOTIFY_CA_FILE and not Path(FETTLE_NOTIFY_CA_FILE).is_file():
    raise env.SettingError(
        f"FETTLE_NOTIFY_CA_FILE={FETTLE_NOTIFY_CA_FILE} is no file; name one with certificates (PEM), or unset it."
    )
FETTLE_ACK_LINK_H = env.integer(
    "FETTLE_ACK_LINK_H", 72, 1, 8784, about="Hours for which the link in a message acknowledges its alert."
)
FETTLE_ALIVE_FILE = env.text(
    "FETTLE_ALIVE_FILE",
    "",
    about="File that a Celery worker and beat touch every few seconds while they reach the broker: its age tells a container's health check. Empty: none.",
)

_log_level = env.choice("FETTLE_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"), about="DEBUG, INFO, WARNING or ERROR.")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname:<7} {name}: {message}", "style": "{"}},
    "filters": {"once_a_minute": {"()": "config.logs.OnceAMinute"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": _log_level},
    "loggers": {
        name: {"level": "WARNING"}  # a line for each tick says nothing
        for name in ("uvicorn.access", "celery.worker.strategy", "celery.app.trace", "celery.beat")
    }
    | {"django.security.DisallowedHost": {"filters": ["once_a_minute"]}},  # anybody can send a foreign Host header
}

# A setting that is misspelt would otherwise do nothing, and nobody would know.
env.refuse_unknown(
    "FETTLE_",
    {"FETTLE_ADMIN_PASSWORD", "FETTLE_ENROLMENT_CODE", "FETTLE_SECRET_KEY", "FETTLE_SECRET_KEY_FILE"},
    elsewhere=("FETTLE_AGENT_", "FETTLE_REPORT_", "FETTLE_TEST_"),
)
