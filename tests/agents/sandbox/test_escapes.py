"""Ways out of a container that have worked somewhere once, tried by a program inside: each prints
ESCAPED when it did what it is after.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

from tests.agents.sandbox.conftest import boxed

CANARY = "canary-3c9e41"
LIBC = "import ctypes,os,sys; c=ctypes.CDLL(None,use_errno=True)"
MOUNTS = r"""
a file system over a folder: mount -t tmpfs none /vault && echo ESCAPED
a folder over another: mount --bind / /vault && echo ESCAPED
the root made writable: mount -o remount,rw / && touch /x && echo ESCAPED
programs made writable: mount -o remount,rw,bind /usr && touch /usr/x && echo ESCAPED
the sockets made writable: mount -o remount,rw,bind /sockets && touch /sockets/x && echo ESCAPED
what is masked taken away: umount /proc/kcore && echo ESCAPED
the copy taken away from what is under it: umount /vault && echo ESCAPED
lazily: umount -l /usr && echo ESCAPED
a disk: for d in /dev/vda /dev/sda /dev/nvme0n1; do mount $d /vault && echo ESCAPED; done
proc again: mkdir -p /tmp/p && mount -t proc proc /tmp/p && echo ESCAPED
sysfs again: mkdir -p /tmp/s && mount -t sysfs sys /tmp/s && echo ESCAPED
the groups of processes: mkdir -p /tmp/c && mount -t cgroup -o rdma cgroup /tmp/c && echo ESCAPED
the newer groups: mkdir -p /tmp/c2 && mount -t cgroup2 none /tmp/c2 && echo ESCAPED
an overlay: mkdir -p /tmp/o && mount -t overlay o -o lowerdir=/etc,upperdir=/tmp,workdir=/tmp/o /tmp/o && echo ESCAPED
as another user's root: unshare -U -r -m sh -c 'mount -t tmpfs none /vault' && echo ESCAPED
a mount space of its own: unshare -m true && echo ESCAPED
a process space of its own: unshare -p -f true && echo ESCAPED
a network of its own: unshare -U -r -n true && echo ESCAPED
the first process's space: nsenter -t 1 -m true && echo ESCAPED
another root: chroot /vault /bin/true; unshare -r chroot /vault true && echo ESCAPED
the newer calls: python3 -c 'LIBC; sys.exit(c.syscall(428,-100,b"/usr",1)<0)' && echo ESCAPED
a file system by descriptor: python3 -c 'LIBC; sys.exit(c.syscall(430,b"tmpfs",0)<0)' && echo ESCAPED
the root swapped: python3 -c 'LIBC; sys.exit(c.syscall(155,b"/vault",b"/vault")<0)' && echo ESCAPED
"""  # noqa: E501
KERNEL = r"""
the program for core dumps: echo '|/vault/x' > /proc/sys/kernel/core_pattern && echo ESCAPED
the program for modules: echo /vault/x > /proc/sys/kernel/modprobe && echo ESCAPED
the program for events: echo /vault/x > /sys/kernel/uevent_helper && echo ESCAPED
the program at the end of a group: for f in $(find /sys/fs/cgroup -name release_agent); do echo /vault/x > $f && echo ESCAPED; done
the limits of its group: for f in $(find /sys/fs/cgroup -name pids.max -o -name mem*limit*); do echo 1 > $f && echo ESCAPED; done
keys of the console: echo h > /proc/sysrq-trigger && echo ESCAPED
the memory: for f in /dev/mem /dev/kmem /proc/kcore /dev/port; do head -c 1 $f >/dev/null && [ -s $f ] && echo ESCAPED; done
the log: dmesg >/dev/null && echo ESCAPED
symbols: grep -v ' T _text$' /proc/kallsyms | grep -qv '^0000000000000000' && echo ESCAPED
a module: modprobe dummy && echo ESCAPED
a module by call: python3 -c 'LIBC; sys.exit(c.syscall(175,b"x",1,b"")>=0 or ctypes.get_errno()!=1)' || echo ESCAPED
another kernel: python3 -c 'LIBC; sys.exit(c.syscall(246,0,0,0,0)<0)' && echo ESCAPED
a program in the kernel: python3 -c 'LIBC; sys.exit(c.syscall(321,0,bytes(120),120)<0)' && echo ESCAPED
counters: python3 -c 'LIBC; b=ctypes.create_string_buffer(120); sys.exit(c.syscall(298,b,0,-1,-1,0)<0)' && echo ESCAPED
faults of memory: python3 -c 'LIBC; sys.exit(c.syscall(323,0)<0)' && echo ESCAPED
keys: python3 -c 'LIBC; sys.exit(c.syscall(250,0,-4,0)<0)' && echo ESCAPED
a file by its handle: python3 -c 'LIBC; sys.exit(c.syscall(304,3,bytes(16),0)>=0 or ctypes.get_errno()!=1)' || echo ESCAPED
the clock: date -s 2001-01-01 && echo ESCAPED
the name: hostname other && echo ESCAPED
the end: python3 -c 'LIBC; sys.exit(c.reboot(0x1234567)<0)' && echo ESCAPED
swap: swapoff -a 2>/dev/null; swapon /vault/x && echo ESCAPED
accounting: python3 -c 'LIBC; sys.exit(c.acct(b"/vault/x")<0)' && echo ESCAPED
"""  # noqa: E501
OTHERS = r"""
the daemon's files by their path: cat {secret} && echo ESCAPED
a link to them: ln -s {secret} /vault/l; cat /vault/l && echo ESCAPED
through the first process's root: cat /proc/1/root{secret} && echo ESCAPED
through its folder: cat /proc/1/cwd{secret} && echo ESCAPED
up from the copy: cat /vault/../../../../../..{secret} && echo ESCAPED
through a descriptor that was left open: for f in /proc/[0-9]*/fd/*; do cat $f/../{secret} $f{secret} && echo ESCAPED; done
the whole machine's processes: [ $(ls -d /proc/[0-9]* | wc -l) -gt 12 ] && echo ESCAPED
the first process's end: kill -9 1; sleep 0.2; false && echo ESCAPED
the first process's memory: python3 -c 'open("/proc/1/mem","r+b").write(b"x")' && echo ESCAPED
a device: mknod /vault/d b 254 0 && head -c 1 /vault/d && echo ESCAPED
a character device: mknod /tmp/m c 1 1 && echo ESCAPED
root by su: echo | su -c id && echo ESCAPED
root by sudo: sudo -n id && echo ESCAPED
root by a copy with the bit: cp /usr/bin/id /vault/i && chmod 4755 /vault/i && [ $(/vault/i -u) = 0 ] && echo ESCAPED
root by call: python3 -c 'import os; os.setuid(0)' && echo ESCAPED
files given away: touch /vault/f && chown 0 /vault/f && echo ESCAPED
a capability put on: cp /usr/bin/id /vault/c && setcap cap_sys_admin+ep /vault/c && echo ESCAPED
docker: for s in /var/run/docker.sock /run/docker.sock {docker}; do [ -S $s ] && echo ESCAPED; done
the daemon on the loopback: python3 -c 'import socket; socket.create_connection(("127.0.0.1",{port}),2)' && echo ESCAPED
the machine's address: python3 -c 'import socket; socket.create_connection(("172.17.0.1",{port}),2)' && echo ESCAPED
a cloud's metadata: python3 -c 'import socket; socket.create_connection(("169.254.169.254",80),2)' && echo ESCAPED
a name: python3 -c 'import socket; socket.getaddrinfo("example.org",80)' && echo ESCAPED
a socket with no file: python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect("\0{abstract}")' && echo ESCAPED
packets: python3 -c 'import socket; socket.socket(socket.AF_PACKET,socket.SOCK_RAW)' && echo ESCAPED
raw addresses: python3 -c 'import socket; socket.socket(socket.AF_INET,socket.SOCK_RAW,1)' && echo ESCAPED
the hypervisor: python3 -c 'import socket; s=socket.socket(40); s.settimeout(2); s.connect((2,1024))' && echo ESCAPED
the interface: ip link add x type dummy && echo ESCAPED
another socket put in the gateway's place: ln -sf /vault/x /sockets/gateway.sock && echo ESCAPED
the CLI for the next run: echo x > /opt/parachute/claude || cp /bin/true /opt/parachute/claude && echo ESCAPED
a large file: head -c 300M /dev/zero > /tmp/big || rm -f /tmp/big; [ -e /tmp/big ] && echo ESCAPED
more rights for descriptors: ulimit -n 100000 && echo ESCAPED
a dump of memory: ulimit -c unlimited && echo ESCAPED
"""  # noqa: E501
TRICKS = {
    f"{kind}: {name}": line.replace("LIBC;", f"{LIBC};")
    for kind, lines in (("mounts", MOUNTS), ("kernel", KERNEL), ("others", OTHERS))
    for name, line in (each.split(": ", 1) for each in lines.strip().splitlines())
}
RUNNER = """
import json, subprocess, sys
found = {}
for name, line in json.loads(sys.stdin.readline()).items():
    try:
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=15, errors="replace")
        found[name] = (done.stdout + done.stderr)[-2000:]
    except subprocess.TimeoutExpired:
        found[name] = "timeout"
print(json.dumps(found))
"""  # noqa: E501


def core_pattern() -> str:
    return Path("/proc/sys/kernel/core_pattern").read_text()


async def test_no_way_out_of_a_container_that_has_worked_somewhere_works(
    sandboxes, engine, tmp_path
):
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    pattern = core_pattern()
    with socket.create_server(("0.0.0.0", 0)) as listening, socket.socket(socket.AF_UNIX) as hidden:  # noqa: S104  what it is after
        hidden.bind(f"\0parachute-{os.getpid()}")
        hidden.listen()
        reported = {
            "secret": secret,
            "port": listening.getsockname()[1],
            "abstract": f"parachute-{os.getpid()}",
        }
        reported["docker"] = engine.get("DOCKER_HOST", "").removeprefix("unix://") or "/none"
        lines = {
            name: line.format(**reported) if name.startswith("others") else line
            for name, line in TRICKS.items()
        }
        async with asyncio.timeout(50), boxed(sandboxes, "python3", "-c", RUNNER) as at_work:
            await at_work.container.write(json.dumps(lines).encode() + b"\n")
            found = json.loads(await at_work.container.stdout.readline())
            assert list(at_work.folder.sockets.iterdir()) == []

    assert len(found) == len(TRICKS) >= 60
    assert [name for name, said in found.items() if "ESCAPED" in said] == []
    assert CANARY not in json.dumps(found)
    assert core_pattern() == pattern
    assert secret.read_text() == CANARY
