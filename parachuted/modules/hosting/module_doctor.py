"""What modules report to `parachute doctor`, each on behalf of who asks and within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from parachuted.access.authority import Authority
from parachuted.errors import ModuleFailedError, ParachuteError
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.results import Finding
from parachuted.visible import visible

_LIMIT_S = 10.0
_MOST = 200
_LONGEST = 2_000
_SEE = "`parachute modules status {}` shows more"


_REPORTED: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])


async def findings_of(running: RunningModule, authority: Authority) -> list[Finding]:
    """What one module reports.

    Raises ModuleFailedError when it fails, takes too long or reports something else.
    """
    found = await running.call("doctor", {}, timeout_s=_LIMIT_S, authority=authority)
    try:
        reported = _REPORTED.validate_python(found)
    except ValidationError as error:
        raise ModuleFailedError(
            f"doctor of the module {running.declared.name} returned something else than a list of "
            f"Finding: {error.errors(include_url=False)[0]['msg']}"
        ) from error
    shown = [
        Finding(
            problem=_line(one.problem),
            advice=_line(one.advice),
            path=None if one.path is None else _line(one.path),
        )
        for one in reported[:_MOST]
    ]
    if len(reported) > _MOST:
        shown.append(Finding(problem=f"and {len(reported) - _MOST:,} more"))
    return shown


async def module_findings(
    modules: Iterable[RunningModule], authority: Authority
) -> list[tuple[str, Finding]]:
    """What all modules report, with the name of each; a doctor that fails is a finding itself."""

    async def ask(running: RunningModule) -> list[Finding]:
        try:
            return await findings_of(running, authority.forked())
        except ParachuteError as error:
            advice = _SEE.format(running.declared.name)
            return [Finding(problem=f"its doctor failed: {error.message}", advice=advice)]

    asked = [one for one in modules if one.declared.has_doctor]
    answers = await asyncio.gather(*(ask(one) for one in asked))
    return [
        (running.declared.name, finding)
        for running, found in zip(asked, answers, strict=True)
        for finding in found
    ]


def _line(text: str) -> str:
    return visible(text[:_LONGEST])
