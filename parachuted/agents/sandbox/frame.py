"""The frame that tells the first process of a container what to run."""

from __future__ import annotations

import json
from importlib.resources import files

from parachuted.agents.sandbox.options import base_environment
from parachuted.agents.sandbox.sandbox_spec import (
    PROXY_SOCKET,
    RELAY_PORT,
    SOCKETS_IN_BOX,
    VAULT_IN_BOX,
    SandboxSpec,
)


def make_frame(spec: SandboxSpec) -> bytes:
    """The command, its environment, and the filtering proxy's socket if the sandbox has a
    network.
    """
    env = {**base_environment(), **spec.env}
    relay = None
    if spec.sandbox.network not in ("none", ()):
        proxy = f"http://127.0.0.1:{RELAY_PORT}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            env |= {name: proxy, name.lower(): proxy}
        env |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")
        source = (files("parachuted.agents.sandbox") / "relay.py").read_text("utf-8")
        relay = {"port": RELAY_PORT, "socket": f"{SOCKETS_IN_BOX}/{PROXY_SOCKET}", "source": source}
    return json.dumps(
        {"command": list(spec.command), "env": env, "cwd": VAULT_IN_BOX, "relay": relay}
    ).encode()
