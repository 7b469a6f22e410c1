"""Strangers at the doors of a process: connects to whatever it listens on at an address of its own, and misbehaves."""
import os
import pathlib
import random
import socket
import subprocess
import sys

LISTENS = "0A"


def own_sockets(pid):
    """Inodes of the process's sockets; none once it has ended."""
    folder = pathlib.Path(f"/proc/{pid}/fd")
    for entry in folder.iterdir() if folder.exists() else []:
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def doors(pid):
    """(address, port) of the sockets that listen on one address: kolo's. MPI's own listen on all."""
    inodes = set(own_sockets(pid))
    if not inodes:
        return
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        address, _, port = words[1].partition(":")
        if words[3] == LISTENS and words[9] in inodes and address != "00000000":
            yield socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)


def misbehave(address, port, choose):
    """A dozen connections: silent, chattering, of another protocol, cut off in the middle; some stay open."""
    kept = []
    for _ in range(12):
        try:
            stranger = socket.create_connection((address, port), timeout=5)
        except OSError:
            continue  # the door has been closed: its rank is beginning anew, or has ended
        kind = choose.randrange(5)
        try:
            if kind == 0:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            elif kind == 1:
                stranger.sendall(choose.randbytes(choose.randint(1, 100_000)))
            elif kind == 2:
                stranger.sendall(bytes([choose.randrange(256)]) + b"\xff\xff\xff\xff")  # something very long
            elif kind == 3:
                stranger.sendall(bytes(choose.randint(1, 64)))
        except OSError:
            pass  # shown the door already
        if choose.random() < 0.5:
            kept.append(stranger)
        else:
            stranger.close()
    return kept


def send(pid, seed):
    """In the network that the process is in."""
    listening = list(doors(pid))
    if not listening:
        return 0
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"] if os.geteuid() == 0 else []
    words = [word for address, port in listening for word in (address, str(port))]
    subprocess.run([*inside, sys.executable, "-B", __file__, str(seed), *words], check=True)
    return len(listening)


if __name__ == "__main__":
    chooser = random.Random(int(sys.argv[1]))
    for where, number in zip(sys.argv[2::2], sys.argv[3::2]):
        misbehave(where, int(number), chooser)
