"""Pseudo-terminals, also on a machine that has been given none."""
import ctypes
import fcntl
import os
import struct
import tempfile

TIOCSPTLCK = 0x40045431
TIOCGPTPEER = 0x5441
MNT_DETACH = 2


def terminal_pair():
    """(other end, terminal), as os.openpty() has them. A root folder without /dev/pts, as debootstrap leaves it, has no
    terminals to give: then from a file system of their own, which is gone with the last of the two. That needs root."""
    try:
        return os.openpty()
    except OSError:
        pass
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory() as folder:
        if libc.mount(b"devpts", folder.encode(), b"devpts", 0, b"newinstance,ptmxmode=0666") != 0:
            raise OSError(ctypes.get_errno(), "no pseudo-terminals: mount /dev/pts, or be root")
        try:
            other_end = os.open(f"{folder}/ptmx", os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(other_end, TIOCSPTLCK, struct.pack("i", 0))
            return other_end, fcntl.ioctl(other_end, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        finally:
            libc.umount2(folder.encode(), MNT_DETACH)
