"""What is wrong with a configuration, each with its place, and several of them as one error."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.errors import ConfigurationError


class ConfigurationErrors(ConfigurationError):
    """Several problems at once, so that they can be corrected in one go. ``errors`` has at least two."""

    def __init__(self, errors: Sequence[ConfigurationError]) -> None:
        self.errors = tuple(errors)
        shown = "; ".join(str(error) for error in self.errors)
        super().__init__(f"{len(self.errors)} problems in the configuration: {shown}")


def raise_all(errors: Sequence[ConfigurationError]) -> None:
    """Raise what there is: nothing, the only one, or all as ConfigurationErrors."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ConfigurationErrors(errors)
