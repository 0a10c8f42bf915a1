"""Command: how the CLI is started, and the little that it is told of its surroundings.

Its environment is made from nothing: what the daemon's own holds, other keys above all, is not the agent's business.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.credentials import KEY_VARIABLE, TOKEN_VARIABLE, Credential
from parachuted.errors import AgentUnavailableError

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_ANTHROPIC = "anthropic.com"
_NO_KEY = "no-key-needed"


def find_cli(env: Mapping[str, str]) -> Path:
    """Find the CLI in the SDK's wheel, else on PATH; raises AgentUnavailableError."""
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if bundled.is_file():
        return bundled
    installed = shutil.which("claude", path=env.get("PATH"))
    if installed is None:
        raise AgentUnavailableError(
            "Claude Code is not bundled for this system and not on PATH; install it, or set agent.backend to offline"
        )
    return Path(installed)


def make_command(cli: Path, options: ClaudeAgentOptions, prompt_file: Path) -> list[str]:
    """Spell the options as arguments. The system prompt comes from a file: an argument has a short limit, and everybody can read it."""
    servers = {name: {"type": "sdk", "name": name} for name in options.mcp_servers} if isinstance(options.mcp_servers, dict) else {}
    command = [str(cli), "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    command += ["--system-prompt-file", str(prompt_file), "--model", str(options.model), "--thinking", "disabled"]
    command += ["--tools", ",".join(map(str, options.tools or ())), f"--setting-sources={','.join(options.setting_sources or ())}"]
    command += ["--mcp-config", json.dumps({"mcpServers": servers}), "--permission-mode", str(options.permission_mode)]
    command += ["--max-turns", str(options.max_turns), "--max-budget-usd", str(options.max_budget_usd)]
    command += ["--allowedTools", ",".join(options.allowed_tools)] if options.allowed_tools else []
    command += ["--strict-mcp-config"] if options.strict_mcp_config else []
    return command + ([f"--resume={options.resume}"] if options.resume else [])


def make_environment(settings: ClaudeSettings, home: Path) -> dict[str, str]:
    """Make the environment of the CLI. A login goes to Anthropic alone; another server gets the key variable, if that is set."""
    env, base_url = settings.env, settings.base_url
    made = {name: env[name] for name in _PASSED_ON if name in env}
    if base_url is None or not is_loopback(base_url):
        made |= {name: env[name] for name in _PROXIES if name in env}
    made |= {"HOME": str(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    made |= {"CLAUDE_CODE_ENTRYPOINT": "sdk-py", "CLAUDE_AGENT_SDK_VERSION": claude_agent_sdk.__version__}
    if base_url is not None:
        made["ANTHROPIC_BASE_URL"] = base_url
    return made | _secrets(env, settings.credential, is_anthropic=base_url is None or _is_anthropic(base_url))


def _secrets(env: Mapping[str, str], credential: Credential | None, *, is_anthropic: bool) -> dict[str, str]:
    if credential is not None and credential.kind == "api_key":
        return {KEY_VARIABLE: env[KEY_VARIABLE]}
    if not is_anthropic:
        return {KEY_VARIABLE: _NO_KEY}
    if credential is not None and credential.kind == "oauth_token":
        return {TOKEN_VARIABLE: env[TOKEN_VARIABLE]}
    if credential is not None and credential.home is not None:
        return {"CLAUDE_SECURESTORAGE_CONFIG_DIR": str(credential.home / ".claude")}
    return {}


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_anthropic(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == _ANTHROPIC or host.endswith(f".{_ANTHROPIC}"))
