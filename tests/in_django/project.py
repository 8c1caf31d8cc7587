"""A Django project inside the tests' process: its databases are put in place by each test."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings
from django.contrib import admin
from django.db import connections
from django.urls import path

from tests.in_django import on_pymysql

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": {"timeout": 20}}
FENCEPOST: dict[str, Any] = {"relay": {"name": "shop"}, "broker": {"url": "nats://127.0.0.1:4222"}}


def configure() -> None:
    """Once in a process."""
    if settings.configured:
        return
    contrib = ("admin", "auth", "contenttypes", "sessions", "messages")
    of = "django.contrib.{}.context_processors.{}".format
    settings.configure(
        SECRET_KEY="tests only",
        ALLOWED_HOSTS=["testserver"],
        USE_TZ=True,
        TIME_ZONE="America/New_York",
        ROOT_URLCONF="tests.in_django.urls",
        INSTALLED_APPS=[*(f"django.contrib.{name}" for name in contrib), "fencepost.django"],
        DATABASES={"default": SQLITE | {"NAME": "nowhere.db"}, "other": SQLITE | {"NAME": "nowhere.db"}},
        FENCEPOST=FENCEPOST,
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        of("auth", "auth"),
                        of("messages", "messages"),
                    ]
                },
            }
        ],
    )
    django.setup()


def entry(url: str, **options: Any) -> dict[str, Any]:
    """An entry of settings.DATABASES for a plain URL."""
    if url.startswith("sqlite"):
        return SQLITE | {"NAME": url.removeprefix("sqlite:///")}
    parts = urlsplit(url)
    if parts.scheme == "mysql":  # PyMySQL reads all of the system's certificates for a connection that may use TLS
        options = {"ssl_disabled": True} | options
    return {
        "ENGINE": f"django.db.backends.{parts.scheme}",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname,
        "PORT": parts.port,
        "OPTIONS": options,
    }


def place(alias: str, given: dict[str, Any]) -> None:
    """Let an alias lead somewhere else from now on."""
    if given["ENGINE"] == on_pymysql.BACKEND:
        on_pymysql.load_backend()
    forget(alias)
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: given})[alias]


def forget(alias: str) -> None:
    """Close an alias's connection of this thread."""
    connections[alias].close()
    del connections[alias]


def admin_urls() -> list[Any]:
    """The routes."""
    return [path("admin/", admin.site.urls)]
