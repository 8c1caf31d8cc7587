"""What ``manage.py check`` says of settings.FENCEPOST. Whether servers answer is for ``manage.py fencepost_check``."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's word

from fencepost.config.problems import ConfigurationErrors
from fencepost.django import settings
from fencepost.errors import ConfigurationError


def check_settings(**_: Any) -> list[CheckMessage]:
    """An Error for each thing that cannot work. An application that only adds messages need not name a broker."""
    try:
        settings.check()
    except ConfigurationErrors as errors:
        return [_error(each) for each in errors.errors]
    except ConfigurationError as error:
        return [_error(error)]
    return [Warning(what, hint=hint, id="fencepost.W001") for what, hint in settings.advice()]


def _error(error: ConfigurationError) -> Error:
    return Error(error.what, hint=error.remedy or None, id="fencepost.E001")
