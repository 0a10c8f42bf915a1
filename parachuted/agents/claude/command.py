"""The command line and environment of the CLI.

The environment is built from nothing, because the daemon's own holds secrets that an agent must not
see.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.credentials import KEY_VARIABLE
from parachuted.agents.gateway import Endpoint
from parachuted.agents.gateway.upstream import is_on_this_machine
from parachuted.errors import AgentUnavailableError

_PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_BEHIND_SOCKET = "http://localhost"
_NO_KEY = "no-key-needed"
_OTHER_MODELS = (
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
_SAID = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_AGENT_SDK_VERSION": claude_agent_sdk.__version__,
    # milliseconds: a tool may wait for a person's answer, and the run's own time bounds it
    "MCP_TOOL_TIMEOUT": "86400000",
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": "86400000",
}
# What it would do in a container for nothing: all but the transcript is gone afterwards, nobody
# waits for what goes on in the background,
# and a copy of notes is no repository to make commits in.
_WITHOUT = (
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
)


def find_cli(env: Mapping[str, str]) -> Path:
    """Find the CLI in the SDK's wheel, else on PATH; raises AgentUnavailableError."""
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if bundled.is_file():
        return bundled
    installed = shutil.which("claude", path=env.get("PATH"))
    if installed is None:
        raise AgentUnavailableError(
            "Claude Code is not bundled for this system and not on PATH; install it, or set "
            "agent.backend to offline"
        )
    return Path(installed)


def make_command(cli: str, options: ClaudeAgentOptions, prompt_file: str) -> list[str]:
    """Spell the options as arguments.

    The system prompt comes from a file: an argument has a short limit, and everybody can read it.

    `cli` and `prompt_file` are paths where the CLI runs.
    """
    servers = (
        {name: {"type": "sdk", "name": name} for name in options.mcp_servers}
        if isinstance(options.mcp_servers, dict)
        else {}
    )
    command = [cli, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    command += [
        "--system-prompt-file",
        prompt_file,
        "--model",
        str(options.model),
        "--thinking",
        "disabled",
    ]
    command += [
        "--tools",
        ",".join(map(str, options.tools or ())),
        f"--setting-sources={','.join(options.setting_sources or ())}",
    ]
    command += [
        "--mcp-config",
        json.dumps({"mcpServers": servers}),
        "--permission-mode",
        str(options.permission_mode),
    ]
    command += ["--max-turns", str(options.max_turns)]
    command += (
        ["--max-budget-usd", str(options.max_budget_usd)]
        if options.max_budget_usd is not None
        else []
    )
    command += ["--allowedTools", ",".join(options.allowed_tools)] if options.allowed_tools else []
    command += ["--settings", options.settings] if options.settings else []
    command += ["--include-partial-messages"] if options.include_partial_messages else []
    for name, value in options.extra_args.items():
        command += [f"--{name}"] + ([] if value is None else [value])
    command += ["--strict-mcp-config"] if options.strict_mcp_config else []
    command += [f"--session-id={options.session_id}"] if options.session_id else []
    return command + ([f"--resume={options.resume}"] if options.resume else [])


def make_environment(settings: ClaudeSettings, home: Path, way: Endpoint | None) -> dict[str, str]:
    """Make the CLI's environment on this machine, with a way through the gateway or without one.

    It holds no credential: the gateway adds that. The value in the key's place is valid for one
    run.
    """
    env, base_url = settings.env, settings.base_url
    made = {name: env[name] for name in _PASSED_ON if name in env} | _SAID
    made["HOME"] = str(home)
    if way is not None:
        return made | _models(way) | {"ANTHROPIC_BASE_URL": way.url, KEY_VARIABLE: way.token}
    if base_url is None or not is_on_this_machine(base_url):
        made |= {name: env[name] for name in _PROXIES if name in env}
    return made | (
        {"ANTHROPIC_BASE_URL": base_url, KEY_VARIABLE: _NO_KEY} if base_url is not None else {}
    )


def make_container_environment(way: Endpoint, home: str, socket: str) -> dict[str, str]:
    """Make the environment of the CLI in a container, whose only way out is the gateway's
    socket.
    """
    made = {
        "HOME": home,
        "ANTHROPIC_UNIX_SOCKET": socket,
        "ANTHROPIC_BASE_URL": _BEHIND_SOCKET,
        KEY_VARIABLE: way.token,
    }
    return made | _models(way) | _SAID | dict.fromkeys(_WITHOUT, "1")


def _models(way: Endpoint) -> dict[str, str]:
    """What it does in the background it does with the run's own model, since the gateway takes no
    other.
    """
    return dict.fromkeys(_OTHER_MODELS, way.model) if way.model is not None else {}
