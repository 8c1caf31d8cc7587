"""A SQLite file and a NATS server on this machine; a PostgreSQL where PGDATABASE names one of its databases."""

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.environ.get("SHOP_FILE", FOLDER / "shop.db"),
    # Write transactions wait for each other, from their beginning; readers hold nobody up.
    "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode = WAL"},
}
POSTGRESQL = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ.get("PGDATABASE"),
    "HOST": os.environ.get("PGHOST", "localhost"),
    "PORT": os.environ.get("PGPORT", "5432"),
    "USER": os.environ.get("PGUSER", "postgres"),
    "PASSWORD": os.environ.get("PGPASSWORD", ""),
}
DATABASES = {"default": POSTGRESQL if "PGDATABASE" in os.environ else SQLITE}

STREAM = os.environ.get("SHOP_STREAM", "shop")
FENCEPOST = {
    "relay": {"name": STREAM},
    "broker": {
        "url": os.environ.get("SHOP_BROKER", "nats://127.0.0.1:4222"),
        "stream": STREAM,
        "subject_prefix": f"{STREAM}.",
    },
}

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "an example, not a secret")
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
DEBUG = True
USE_TZ = True
ROOT_URLCONF = "shop.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "fencepost.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
