#!/usr/bin/env bash
# Guess: files put into a named volume of type tmpfs before a container's first start are there when it starts, as in any other
# named volume; only the memory is another.
# Seen: put_archive answers True and get_archive, asked at once, has nothing: the engine mounts the volume for the one call and
#   unmounts it again. The container starts without the files, and a restart empties it too. While it runs, both calls see what
#   it sees (as they do not with the `tmpfs` option of a container). An ordinary volume keeps the files.
# Why it matters: create, put the settings, start is the usual order, since an agent must not run before they are there. With
#   such a volume it runs without, and nothing failed. Start a container that waits, put, and let it go on.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import atexit
import io
import tarfile

from docker.types import Mount

from docker_rig import archive, changed, engine, fetch

seen = {}
for kind, options in {"ordinary": {}, "tmpfs": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}.items():
    engine.volumes.create(kind, driver="local", driver_opts=options)
    container = engine.containers.create("box", ["sleep", "600"], network_disabled=True, mounts=[Mount("/home", kind, type="volume")])
    atexit.register(container.remove, force=True)
    names = lambda: tarfile.open(fileobj=io.BytesIO(fetch(container, "/home")[0])).getnames()[1:]  # noqa: E731
    inside = lambda: container.exec_run("ls /home").output.decode().split()  # noqa: E731
    answer, back = container.put_archive("/home", archive(**{"before.json": b"{}"})), names()
    container.start()
    started = inside()
    container.put_archive("/home", archive(**{"while.json": b"{}"}))
    running = inside(), names()
    container.restart(timeout=0)
    seen[kind] = (answer, back, started, *running, inside())
    print(f"{kind}: put before the start {answer}, fetched back {back}, at the start {started}")
    print(f"    put while it runs: inside {running[0]}, fetched back {running[1]}; after a restart {seen[kind][-1]}")
both = ["before.json", "while.json"]
if seen["tmpfs"] != (True, [], [], ["while.json"], ["home/while.json"], []):
    changed("the volume of type tmpfs keeps files without a running container, or is not seen")
if seen["ordinary"] != (True, ["home/before.json"], ["before.json"], both, ["home/before.json", "home/while.json"], both):
    changed("an ordinary volume differs too")
PYTHON
