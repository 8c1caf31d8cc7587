"""The app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class FencepostConfig(AppConfig):
    """Its label is that of migrations and permissions: ``migrate fencepost``, ``fencepost.view_payload``."""

    name = "fencepost.django"
    label = "fencepost"
    verbose_name = "Fencepost"

    def ready(self) -> None:
        """Let ``manage.py check`` say what is wrong with settings.FENCEPOST."""
        from fencepost.django.checks import check_settings

        checks.register(check_settings)
