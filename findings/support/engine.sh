# Sourced by scripts about Docker: an engine of their own on a socket below $work, an image `box` of busybox
# made without a registry, and docker_rig.py for Python scripts.
need dockerd busybox
[[ $(id -u) == 0 ]] || {
  echo "cannot run here: an engine of its own needs root"
  exit 2
}
mkdir -p "$work/root/bin" "$work/root/tmp" "$work/folder"
cp "$(command -v busybox)" "$work/root/bin/busybox"
for name in sh sleep ls cat echo stat mkdir ln; do ln -s busybox "$work/root/bin/$name"; done
tar -C "$work/root" -cf "$work/box.tar" .

dockerd --storage-driver=vfs --iptables=false --bridge=none -H "unix://$work/socket" --data-root="$work/data" \
  --exec-root="$work/exec" --pidfile="$work/pid" >"$work/engine.log" 2>&1 &
started+=($!)
until_true test -S "$work/socket" || {
  tail -3 "$work/engine.log"
  echo "cannot run here: dockerd does not start"
  exit 2
}
python_packages docker==7.2.0
export PYTHONPATH="$work" PYTHONDONTWRITEBYTECODE=1

# script: runs the Python on its stdin, for two minutes at most.
script() {
  timeout 120 "$python" - || changed "the lines above say what, or it did not end in time"
}

cat >"$work/docker_rig.py" <<'PYTHON'
import atexit
import io
import pathlib
import sys
import tarfile

import docker

work = pathlib.Path(__file__).parent
folder = work / "folder"  # mounted at /folder
engine = docker.DockerClient(base_url=f"unix://{work}/socket", timeout=60)
engine.api.import_image_from_file(str(work / "box.tar"), repository="box")
print("Docker engine", engine.version()["Version"])


def box(*command, image="box", **options):
    """A container, removed when the script ends; without a command it sleeps."""
    container = engine.containers.run(image, list(command) or ["sleep", "600"], detach=True, network_disabled=True,
                                      volumes={str(folder): {"bind": "/folder", "mode": "rw"}}, **options)
    atexit.register(container.remove, force=True)
    return container


def archive(**files):
    """A tar: bytes are a file, None is a folder."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.mode = (tarfile.DIRTYPE, 0, 0o755) if content is None else (tarfile.REGTYPE, len(content), 0o644)
            tar.addfile(entry, io.BytesIO(content or b""))
    return target.getvalue()


def fetch(container, path):
    chunks, stat = container.get_archive(path)
    return b"".join(chunks), stat


def changed(words):
    print("CHANGED:", words)
    sys.exit(1)
PYTHON
