from __future__ import annotations

from aiohttp import web

from parachuted.api.http.route import Route
from tests.stories.daemon_rig import Live

ROUTES = {
    "GET /api/links/target",
    *("GET /", "GET /service-worker.js", "GET /web/{version}/{name}"),
    *("GET /api/tls", "GET /tls/authority.crt"),
    *("GET /api/settings", "PUT /api/settings/{key}", "GET /api/hooks/diff"),
    "POST /api/vault",
    "POST /api/notes/{path}/move-plan",
    *("GET /api/modules/{name}/settings", "PUT /api/modules/{name}/settings/{key}"),
    "GET /api/modules/{name}/logs",
    *("GET /api/auth/me", "POST /api/auth/codes", "POST /api/auth/codes/redeem"),
    *("GET /mcp", "POST /mcp", "DELETE /mcp"),
    *(
        "GET /api/health",
        "GET /api/watches",
        "GET /api/tasks",
        "GET /api/runs",
        "GET /api/runs/{id}",
        "GET /api/runs/{id}/undo",
        "POST /api/runs/{id}/undo",
        "POST /api/sessions/undo",
        "POST /api/sessions/undo/plan",
    ),
    *(
        "POST /api/bubble/plan",
        "POST /api/bubble/run",
        "GET /api/why",
        "POST /api/pause",
        "POST /api/resume",
        "POST /api/scan",
    ),
    *(
        "GET /api/ls",
        "GET /api/read",
        "PUT /api/write",
        "GET /api/sync/manifest",
        "GET /api/sync/changes",
    ),
    *(
        "POST /api/sync/push",
        "POST /api/sync/pull",
        "DELETE /api/sync/files",
        "GET /api/files/{path}",
        "PUT /api/files/{path}",
    ),
    *(
        "GET /api/auth/keys",
        "POST /api/auth/keys",
        "DELETE /api/auth/keys/{id}",
        "GET /api/auth/settings",
        "PUT /api/auth/settings",
    ),
    *("GET /api/history", "GET /api/runs/{id}/diff", "POST /api/history/restore"),
    *(
        "GET /api/doctor",
        "GET /api/contexts/folders",
        "GET /api/contexts/chain",
        "GET /api/prompt/preview",
        "GET /api/events",
    ),
    *(
        "GET /api/contexts/session/{id}",
        "PUT /api/contexts/session/{id}",
        "POST /api/contexts/session/{id}/add",
    ),
    *(
        "POST /api/contexts/session/{id}/remove",
        "GET /api/hooks",
        "GET /api/hooks/errors",
        "GET /api/scheduler",
        "GET /api/usage",
    ),
    *(
        "POST /api/scheduler/reload",
        "GET /api/models",
        "GET /api/para/{id}",
        "GET /supervisor/models",
        "GET /supervisor/status",
    ),
    *(f"POST /supervisor/server/{act}" for act in ("start", "stop", "restart")),
    *("GET /api/contexts/migration", "POST /api/contexts/migration"),
    *("GET /api/migration/scan", "POST /api/migration/all", "POST /api/migration/session/{id}"),
    *(
        "GET /api/notes",
        "GET /api/notes/{path}/backlinks",
        "POST /api/notes/{path}/move",
        "GET /api/links/unresolved",
    ),
    "GET /api/notes/{path}/versions",
    *(
        "GET /api/notes/{path}",
        "PATCH /api/notes/{path}",
        "PUT /api/notes/{path}",
        "DELETE /api/notes/{path}",
    ),
    *("GET /api/audit", "GET /api/audit/verify", "GET /api/search"),
    *("GET /api/mcps", "POST /api/mcps", "DELETE /api/mcps/{name}", "GET /api/mcps/{name}/tools"),
    *("POST /api/agents", "DELETE /api/agents/{name}", "GET /api/skills", "POST /api/skills"),
    *("GET /api/skills/{name}", "DELETE /api/skills/{name}"),
    *("POST /api/mcps/{name}/approve", "POST /api/mcps/{name}/test"),
    *("GET /api/openapi.json", "GET /api/docs"),
    *(
        "POST /api/hooks/test",
        "GET /api/hooks/runs",
        "GET /api/hooks/runs/{id}",
        "POST /api/hooks/runs/{id}/replay",
    ),
    *(
        "POST /api/hooks/approve",
        "GET /api/modules",
        "POST /api/modules/install",
        "GET /api/modules/{name}",
        "DELETE /api/modules/{name}",
    ),
    *(f"POST /api/modules/{{name}}/{act}" for act in ("approve", "enable", "disable", "restart")),
    *(
        "GET /api/agents",
        "GET /api/agents/audit",
        "GET /api/agents/{name}",
        "POST /api/agents/trust",
        "GET /api/sandbox/explain",
    ),
    *("GET /api/permissions", "POST /api/permissions/forget", "POST /api/permissions/{id}"),
    *("POST /api/agents/{name}/run", "POST /api/agents/stop", "POST /api/maintenance"),
    *("GET /api/auth/logins", "GET /api/sandbox", "POST /api/sandbox/build"),
    *("GET /api/suggestions", "GET /api/suggestions/{id}", "POST /api/suggestions/approve-all"),
    *(f"POST /api/suggestions/{{id}}/{act}" for act in ("approve", "reject", "modify")),
    *(
        "GET /api/modules/{name}/diff",
        "GET /api/modules/{name}/prompt",
        "PUT /api/modules/{name}/prompt",
    ),
}


def routes_of(app: web.Application) -> set[str]:
    return {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.method != "HEAD"
    }


async def test_these_are_the_routes(live: Live):
    async with live() as daemon_rig:
        assert routes_of(daemon_rig.daemon.http.make_app()) == ROUTES


async def test_each_route_is_declared_and_says_what_it_does(live: Live):
    async with live() as daemon_rig:
        for route in daemon_rig.daemon.http.make_app().router.routes():
            assert isinstance(route.handler.__self__, Route), route
            assert route.handler.__self__.summary.endswith(".")
            assert route.handler.__self__.answers
