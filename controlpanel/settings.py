"""Settings of the panel. The environment is read here and nowhere else; README.md has the table of
variables.
"""

from pathlib import Path

from csp.constants import NONE, SELF

from controlpanel import env

BASE_DIR = Path(__file__).resolve().parent.parent

# --- What the environment decides ---------------------------------------------------------------------------

DATA_DIR = env.data_directory("RELAUNCH_DATA_DIR", default=BASE_DIR / "var")
DEBUG = env.switch("RELAUNCH_DEBUG", default="no")
PANEL_URL = env.panel_url("PANEL_URL")  # how browsers elsewhere reach it, through a proxy that speaks TLS
HTTPS = PANEL_URL is not None and PANEL_URL.scheme == "https"
LOG_LEVEL = env.choice("RELAUNCH_LOG_LEVEL", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
SECRET_KEY = env.secret_key("SECRET_KEY", directory=DATA_DIR)
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *([PANEL_URL.hostname or ""] if PANEL_URL else [])]
CSRF_TRUSTED_ORIGINS = [PANEL_URL.geturl()] if PANEL_URL else []
TRUSTED_PROXIES = env.words("RELAUNCH_TRUSTED_PROXIES", default="")
DATABASES = {"default": env.database("DATABASE_URL", directory=DATA_DIR)}
VALKEY_SOCKET = env.valkey_socket(directory=DATA_DIR)
EMBEDDED_VALKEY = not env.text("REDIS_URL")
REDIS_URL = env.redis_url("REDIS_URL", socket=VALKEY_SOCKET)
MEMORY_KEPT_SECONDS = {  # how long readings of the cards' memory are kept, by the seconds of a step
    1: 60 * env.number("RELAUNCH_MEMORY_MINUTES", default=15, least=1, most=1440),
    10: 3600 * env.number("RELAUNCH_MEMORY_HOURS", default=24, least=1, most=720),
    60: 86400 * env.number("RELAUNCH_MEMORY_DAYS", default=30, least=1, most=400),
}

# --- Django -------------------------------------------------------------------------------------------------

ROOT_URLCONF = "controlpanel.urls"
ASGI_APPLICATION = "controlpanel.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "controlpanel.apps.ControlpanelConfig",
    "hosts.apps.HostsConfig",
    "deployments.apps.DeploymentsConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "controlpanel.middleware.not_kept",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",  # a page is closed unless it says otherwise
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    ["django.template.loaders.filesystem.Loader"],
                )
            ]
            if not DEBUG
            else ["django.template.loaders.filesystem.Loader"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "controlpanel.context.panel",
            ],
        },
    }
]

# --- Sign-in and what the browser may do --------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "controlpanel:login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "controlpanel:login"

# Cookies are shared by all ports of a host name: names of our own keep another program on this machine from
# overwriting the session. With TLS the names also bind the cookies to this very host.
SESSION_COOKIE_NAME = "__Host-relaunch_sessionid" if HTTPS else "relaunch_sessionid"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = HTTPS
SESSION_COOKIE_AGE = 7 * 24 * 3600
CSRF_COOKIE_NAME = "__Host-relaunch_csrftoken" if HTTPS else "relaunch_csrftoken"
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True

SECURE_SSL_REDIRECT = HTTPS  # whoever comes past the proxy is led to it
SECURE_SSL_HOST = PANEL_URL.netloc if PANEL_URL else None
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]  # asked by whoever looks after the process, on this machine
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],  # the icons inside Tabler's style sheet
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# --- Static files -------------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Ours and vendor/, nothing else.
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "controlpanel.static_storage.HashedStaticStorage"},
}
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = ["woff", "woff2", "png", "jpg", "gz", "map"]

# --- Live updates and tasks ---------------------------------------------------------------------------------

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # A subscriber waits as long as it takes; a timeout would end the subscription after some quiet
        # seconds.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}]},
    }
}

LIVE_CONNECTION_SECONDS = 60  # how long a thread that reads for the sockets keeps its database connection

CELERY_BROKER_URL = f"redis+socket{REDIS_URL[4:]}" if REDIS_URL.startswith("unix:") else REDIS_URL
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_timeout": 5,  # a frozen broker costs the caller five seconds, not for ever
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_PUBLISH_RETRY = False  # the sweeper rings again
CELERY_TASK_IGNORE_RESULT = True
if DATABASES["default"]["ENGINE"] == env.SQLITE:
    CELERY_DB_REUSE_MAX = 10**9  # tasks: Celery's Django part would close the connection after each
CELERY_TASK_ACKS_LATE = False  # a message is a doorbell; the database decides who works
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "jobs"
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False

# --- What the operator of the panel reads -------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"brief": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "brief"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "paramiko": {"level": "ERROR"},
        "celery": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "django": {"level": LOG_LEVEL},
        "django.request": {"level": "ERROR"},
        "uvicorn": {"level": "WARNING"},
        "apprise": {"handlers": [], "propagate": False},  # it writes addresses, with their tokens, that it cannot read
    },
}
