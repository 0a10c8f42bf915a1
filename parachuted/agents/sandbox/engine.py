"""Engine: the Docker engine of this machine, through the `docker` package, which blocks and so works in threads of its own."""

from __future__ import annotations

import docker

CLIENT = docker.DockerClient
