"""Settings of the tests: the panel's own, in a directory that is thrown away, without a broker."""

import os
import tempfile

os.environ["RELAUNCH_DATA_DIR"] = tempfile.mkdtemp(prefix="relaunch-tests-")
for name in ("REDIS_URL", "SECRET_KEY", "PANEL_URL"):
    os.environ.pop(name, None)
# RELAUNCH_TEST_DATABASE_URL runs the same tests on PostgreSQL.
os.environ["DATABASE_URL"] = os.environ.get("RELAUNCH_TEST_DATABASE_URL", "")

from controlpanel.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast; nobody attacks the tests
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
CELERY_BROKER_URL = "memory://"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
MIDDLEWARE = [name for name in MIDDLEWARE if "whitenoise" not in name.lower()]  # noqa: F405
LIVE_CONNECTION_SECONDS = 0  # a connection that stays open would be in the way of removing the test database
