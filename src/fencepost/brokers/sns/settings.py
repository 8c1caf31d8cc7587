"""The plug-in's own settings."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.aws.publishing import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(settings.Settings):
    """``topic`` is a template: "{topic}" in it becomes the topic."""

    title = "SNS"
    template_name = "topic"
    name_characters_max = 256

    topic: str = settings.TOPIC
