"""Denies a module host system calls: programs, sockets, and changes to files that need no open.

Landlock restricts opening files; a process could still change modes, watch folders, start programs
or send datagrams. The filter denies these with EPERM, and the processor's other calling conventions
entirely.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_DENY = _ERROR | errno.EPERM
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000

_ARCHES: Mapping[str, int] = MappingProxyType({"x86_64": 0xC000003E, "aarch64": 0xC00000B7})
_COLUMNS = ("x86_64", "aarch64")

# Each with its number on x86_64 and on aarch64; None: not there.
_DENIED: Mapping[str, tuple[int | None, int | None]] = MappingProxyType(
    {
        # programs and processes
        "fork": (57, None),
        "vfork": (58, None),
        "execve": (59, 221),
        "execveat": (322, 281),
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "tkill": (200, 130),
        "rt_sigqueueinfo": (129, 138),
        "rt_tgsigqueueinfo": (297, 240),
        "pidfd_open": (434, 434),
        "pidfd_send_signal": (424, 424),
        "pidfd_getfd": (438, 438),
        "process_madvise": (440, 440),
        "kcmp": (312, 272),
        "setpriority": (141, 140),
        "ioprio_set": (251, 30),
        "sched_setscheduler": (144, 119),
        "sched_setparam": (142, 118),
        "sched_setattr": (314, 274),
        "migrate_pages": (256, 238),
        "move_pages": (279, 239),
        "setsid": (112, 157),
        "setpgid": (109, 154),
        # the network, and ways around the list
        "socket": (41, 198),
        "connect": (42, 203),
        "bind": (49, 200),
        "listen": (50, 201),
        "accept": (43, 202),
        "accept4": (288, 242),
        "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        # files, without opening them; Landlock knows of truncate since its third version only
        "truncate": (76, 45),
        "chmod": (90, None),
        "fchmod": (91, 52),
        "fchmodat": (268, 53),
        "fchmodat2": (452, 452),
        "chown": (92, None),
        "fchown": (93, 55),
        "lchown": (94, None),
        "fchownat": (260, 54),
        "setxattr": (188, 5),
        "lsetxattr": (189, 6),
        "fsetxattr": (190, 7),
        "removexattr": (197, 14),
        "lremovexattr": (198, 15),
        "fremovexattr": (199, 16),
        "setxattrat": (463, 463),
        "removexattrat": (466, 466),
        "utime": (132, None),
        "utimes": (235, None),
        "utimensat": (280, 88),
        "futimesat": (261, None),
        "inotify_add_watch": (254, 27),
        "fanotify_init": (300, 262),
        "fanotify_mark": (301, 263),
        "name_to_handle_at": (303, 264),
        "open_by_handle_at": (304, 265),
        "file_setattr": (469, 469),
        # the machine
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "unshare": (272, 97),
        "setns": (308, 268),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fspick": (433, 433),
        "mount_setattr": (442, 442),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "reboot": (169, 142),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "add_key": (248, 217),
        "request_key": (249, 218),
        "keyctl": (250, 219),
        "personality": (135, 92),
        "acct": (163, 89),
        "quotactl": (179, 60),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
        "syslog": (103, 116),
        "vhangup": (153, 58),
        "iopl": (172, None),
        "ioperm": (173, None),
        "memfd_secret": (447, 447),
        # memory and messages shared with other processes
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "msgget": (68, 186),
        "msgsnd": (69, 189),
        "msgrcv": (70, 188),
        "msgctl": (71, 187),
        "semget": (64, 190),
        "semop": (65, 193),
        "semctl": (66, 191),
        "semtimedop": (220, 192),
        "mq_open": (240, 180),
        "mq_unlink": (241, 181),
    }
)
_CLONE, _CLONE3 = (56, 220), (435, 435)
# what a program needs that starts others
_OF_PROGRAMS = frozenset({"fork", "vfork", "execve", "execveat", "setsid", "setpgid"})
_ONLY_ITSELF = (
    (62, 129),
    (234, 131),
    (302, 261),
    (203, 122),
)  # kill, tgkill, prlimit64, sched_setaffinity; first comes a process
# prctl, with what would let the process outlive the daemon (PR_SET_PDEATHSIG).
_NOT_FIRST = (((157, 167), (1,)),)
# fcntl and ioctl, with what makes the kernel send another process any signal when a pipe of ours
# moves (F_SETOWN, F_SETSIG, F_SETOWN_EX;
# FIOSETOWN, SIOCSPGRP): Landlock holds that since its sixth version only.
_NOT_WITH = (((72, 25), (8, 10, 15)), ((16, 29), (0x8901, 0x8902)))


def can_filter() -> bool:
    """Whether the numbers of this processor's system calls are known here."""
    return platform.system() == "Linux" and platform.machine() in _ARCHES


def filter_calls(*, runs_programs: bool = False) -> None:
    """Deny them to this process for good, but for starting programs where it `runs_programs`.

    Raises OSError. `no_new_privs` must be set, and there must be no other thread yet.
    """
    if not can_filter():
        raise OSError(errno.ENOSYS, f"the system calls of {platform.machine()} are not known here")
    code = make_filter(platform.machine(), os.getpid(), runs_programs=runs_programs)
    program = ctypes.create_string_buffer(code, len(code))
    packed = struct.pack("@HP", len(code) // 8, ctypes.addressof(program))
    if (
        ctypes.CDLL(None, use_errno=True).prctl(
            _PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(packed), 0, 0
        )
        != 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def make_filter(machine: str, pid: int, *, runs_programs: bool = False) -> bytes:
    """The filter as the kernel reads it: a list of instructions of 8 bytes each.

    A process that `runs_programs` may start and signal others: who they are is Landlock's to say.
    """
    column = _COLUMNS.index(machine)
    steps = [
        *_known_arch(_ARCHES[machine]),
        *([_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _DENY)] if column == 0 else []),
    ]
    for name, numbers in _DENIED.items():
        number = numbers[column]
        if number is not None and not (runs_programs and name in _OF_PROGRAMS):
            steps += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _DENY)]
    steps += [
        _step(_EQUAL, _CLONE3[column], 0, 1),
        _step(_RETURN, _ERROR | errno.ENOSYS),
    ]  # its flags are out of a filter's sight
    if not runs_programs:
        steps += [
            _step(_EQUAL, _CLONE[column], 0, 4),
            _step(_LOAD, _FIRST_ARGUMENT_AT),
            _step(_ANY_BIT, _CLONE_THREAD, 0, 1),
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _DENY),
        ]
        for both in _ONLY_ITSELF:
            steps += _only_itself(both[column], pid)
    for both, denied in _NOT_WITH:
        steps += _not_with(both[column], denied, _SECOND_ARGUMENT_AT)
    for both, first in _NOT_FIRST:
        steps += _not_with(both[column], first, _FIRST_ARGUMENT_AT)
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _known_arch(arch: int) -> Iterable[bytes]:
    return (
        _step(_LOAD, _ARCH_AT),
        _step(_EQUAL, arch, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
    )


def _only_itself(number: int, pid: int) -> Iterable[bytes]:
    asked = (
        _step(_EQUAL, number, 0, 5),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(_EQUAL, pid, 1, 0),
        _step(_EQUAL, 0, 0, 1),
    )
    return (*asked, _step(_RETURN, _ALLOW), _step(_RETURN, _DENY))


def _not_with(number: int, denied: Iterable[int], argument_at: int) -> Iterable[bytes]:
    checks = [
        step for value in denied for step in (_step(_EQUAL, value, 0, 1), _step(_RETURN, _DENY))
    ]
    return (
        _step(_EQUAL, number, 0, len(checks) + 2),
        _step(_LOAD, argument_at),
        *checks,
        _step(_RETURN, _ALLOW),
    )


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
