"""Places of the API outside `/api/<module>` that the core keeps for one module, since apps that
there are call them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

KEPT_PATHS: Mapping[str, str] = MappingProxyType(
    {
        "/api/modules/daily/agents": "daily",
        **dict.fromkeys(
            (
                "/api/bots",
                "/api/claude-code",
                "/api/import",
                "/api/migration",
                "/api/plugins",
                "/api/workspaces",
            ),
            "chat",
        ),
    }
)
"""The name of the module that may serve each place, and all below it. No other module may."""


def kept_path(path: str) -> str | None:
    """Which of them that path is, or is below."""
    return next(
        (kept for kept in KEPT_PATHS if path == kept or path.startswith(f"{kept}/")),
        None,
    )
