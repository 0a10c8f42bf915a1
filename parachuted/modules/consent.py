"""Consent: what a person is told before a module is approved, with nothing hidden in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What approving would allow. Every text in it has its control characters made visible already."""

    name: str
    version: str
    description: str
    digest: str
