"""What the Flutter app reads of each answer, by the rows of its contract: each field is described,
by that name and of that type. test_route_table.py has that answers are what is described.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.api.calls import get
from tests.api.places import followed
from tests.stories.daemon_rig import DaemonRig

TYPES = {"s": "string", "i": "integer", "n": "number", "b": "boolean"}
READS = {
    "GET /api/health": "status:s version:s timestamp:i uptime:n vault modules bots docker",
    "GET /api/auth/keys": "keys.id:s keys.label:s keys.created_at:s keys.last_used_at:s "
    "auth_mode:s",
    "POST /api/auth/keys": "id:s label:s key:s created_at:s",
    "DELETE /api/auth/keys/{id}": "status:s id:s",
    "GET /api/auth/settings": "require_auth:s key_count:i",
    "GET /api/usage": "five_hour.utilization:n five_hour.resets_at:s seven_day.utilization:n "
    "seven_day_sonnet seven_day_opus extra_usage subscription_type rate_limit_tier error",
    "GET /api/contexts/folders": "folders.path:s folders.context_file:s folders.has_agents_md:b "
    "folders.has_claude_md:b folders.display_name:s count:i",
    "GET /api/contexts/chain": "files.path:s files.folder_path:s files.level:s files.tokens:i "
    "files.exists:b files.included:b total_tokens:i truncated:b",
    "GET /api/contexts/session/{id}": "folder_paths:s",
    "GET /api/prompt/preview": "prompt:s promptSource:s promptSourcePath:s contextFiles:s "
    "contextTokens:i contextTruncated:b agentName:s availableAgents:s availableSkills:s "
    "availableMcps:s basePromptTokens:i totalPromptTokens:i trustMode:b "
    "workingDirectoryClaudeMd:s brain_context_loaded:b brain_context_count:i",
    "GET /api/modules/{name}/prompt": "content:s exists:b defaultPrompt:s",
    "GET /api/ls": "entries.name:s entries.type:s entries.path:s entries.relativePath:s "
    "entries.isDirectory:b entries.isSymlink:b entries.symlinkTarget:s entries.hasAgentsMd:b "
    "entries.hasClaudeMd:b entries.isGitRepo:b entries.lastModified:s entries.size:i",
    "GET /api/read": "path:s content:s size:i lastModified:s hash:s",
    "PUT /api/write": "success:b path:s size:i lastModified:s",
    "GET /api/sync/manifest": "files.path:s files.hash:s files.size:i files.modified:n",
    "GET /api/sync/changes": "files.path:s",
    "POST /api/sync/push": "pushed:i errors:s",
    "POST /api/sync/pull": "files.path:s files.content:s files.is_binary:b",
    "DELETE /api/sync/files": "deleted:i",
    "GET /api/modules": "modules.name:s modules.trust_level:s modules.status:s modules.version:s "
    "modules.hash:s modules.description:s modules.provides:s",
    "GET /api/hooks": "hooks.name:s hooks.events:s hooks.blocking:b hooks.description:s "
    "health.recent_errors_count:i",
    "GET /api/hooks/errors": "errors.hook:s errors.hook_name:s errors.message:s errors.error:s "
    "errors.timestamp:s",
    "POST /api/scheduler/reload": "status:s",
    "GET /api/agents": "agents.name:s agents.description:s agents.type:s agents.model:s "
    "agents.path:s agents.source:s agents.tools:s agents.system_prompt:s agents.spawns:s "
    "agents.system_prompt_preview:s agents.permissions agents.constraints agents.mcp_servers:s",
    "GET /api/skills": "skills.name:s skills.description:s skills.content:s skills.size:i "
    "skills.modified:s skills.version:s skills.allowed_tools:s skills.is_directory:b "
    "skills.files.name:s skills.files.size:i skills.source:s",
    "GET /api/mcps": "servers.name:s servers.displayType:s servers.displayCommand:s "
    "servers.builtin:b servers.validationErrors:s",
    "GET /api/mcps/{name}/tools": "error:s tools.name:s tools.description:s",
    "GET /supervisor/status": "supervisor_uptime_seconds:i supervisor_version:s "
    "main_server_healthy:b main_server_status:s config_loaded:b main_server_uptime_seconds:i "
    "main_server_version:s main_server_port:i",
    "GET /supervisor/models": "models.id:s models.display_name:s models.created_at:s "
    "models.family:s models.is_latest:b",
    "GET /api/migration/scan": "currentVaultRoot:s needsMigration alreadyCurrent:i noVaultRoot:i "
    "total:i",
    "POST /api/migration/all": "migrated:i failed:i total:i success:b error:s",
}


async def test_each_field_that_the_app_reads_is_described_with_its_type(daemon_rig: DaemonRig):
    document = await get(daemon_rig, "/api/openapi.json")

    wrong = []
    for name, fields in READS.items():
        method, path = name.split()
        content = document["paths"][path][method.lower()]["responses"]["200"]["content"]
        for field in fields.split():
            dotted, _colon, kind = field.partition(":")
            found = [*at(document, content["application/json"]["schema"], dotted.split("."))]
            types = {schema.get("type") for schema in found}
            if not found or (kind and TYPES[kind] not in types):
                wrong.append((name, field, types))
    assert wrong == []


async def test_no_value_of_a_room_is_answered_with_a_secret_in_it(daemon_rig: DaemonRig):
    schemas = (await get(daemon_rig, "/api/openapi.json"))["components"]["schemas"]

    assert {
        (name, field)
        for name, schema in schemas.items()
        for field in schema.get("properties", {})
        if field in {"credential", "key_hash", "password", "secret", "secrets"}
    } == set()


def at(document: dict, schema: dict, names: list[str]) -> Iterator[dict]:
    """What the schema says of the field of that name, in each item of a list."""
    schema = followed(document, schema)
    for way in schema.get("anyOf", ()):
        yield from at(document, way, names)
    if schema.get("type") == "array":
        yield from at(document, schema["items"], names)
    elif not names:
        yield schema
    elif names[0] in schema.get("properties", {}):
        yield from at(document, schema["properties"][names[0]], names[1:])
