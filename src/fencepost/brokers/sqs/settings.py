"""The plug-in's own settings."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.aws.publishing import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(settings.Settings):
    """``queue`` is a template: "{topic}" in it becomes the topic."""

    title = "SQS"
    template_name = "queue"
    name_characters_max = 80

    queue: str = settings.TOPIC
