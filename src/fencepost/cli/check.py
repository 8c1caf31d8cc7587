"""`fencepost check`: one line for each part, what to do about it, and which delivery is possible and in force."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from fencepost import app
from fencepost.cli import output
from fencepost.cli.failures import MANNER, OK, PROBLEM_FOUND, UNREACHABLE
from fencepost.cli.settings import load_config
from fencepost.config import Config, masked

_COLOURS = {"ok": "green", "warning": "yellow", "error": "bold red"}


def check(file: Path | None, *, as_json: bool) -> int:
    """Report; the exit code."""
    return show(load_config(file), as_json=as_json)


def show(config: Config, *, as_json: bool) -> int:
    """The same with a configuration."""
    report = asyncio.run(app.check(config))
    if as_json:
        output.json_line({"ok": report.ok, **dataclasses.asdict(_scrubbed(report)), "configuration": masked(config)})
    else:
        _render(_scrubbed(report))
    if report.ok:
        return OK
    return UNREACHABLE if report.waits else PROBLEM_FOUND


def _scrubbed(report: app.CheckReport) -> app.CheckReport:
    findings = tuple(
        dataclasses.replace(f, what=MANNER.scrub(f.what), remedy=MANNER.scrub(f.remedy)) for f in report.findings
    )
    return dataclasses.replace(report, findings=findings)


def _render(report: app.CheckReport) -> None:
    for finding in report.findings:
        _show(finding)
    if report.delivery_in_force is None:
        possible = report.delivery_possible or "unknown, the broker could not be asked"
        verdict = "a relay would wait, and try again until it works" if report.waits else "a relay would not start"
        output.line(f"{verdict}; delivery possible: {possible}")


def _show(finding: app.Finding) -> None:
    rest = f" {finding.part:<9}{finding.what}"
    if output.on_terminal():
        from rich.text import Text

        output.console().print(Text.assemble((f"{finding.level:<8}", _COLOURS[finding.level]), rest))
    else:
        output.line(f"{finding.level:<8}{rest}")
    if finding.remedy and finding.level != "ok":
        output.line(f"{'':<18}{finding.remedy}")
