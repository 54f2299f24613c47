"""Holds a process in the middle of an exec, as a file server that does not answer does: nobody
can read its environment, because the reader waits. The first argument is an empty folder.
Prints the process's pid; ends it when standard input ends. 77: not possible here.

A FUSE file system of one file, whose FLUSH is never answered: the kernel asks for it when it
closes the file on behalf of the exec."""

import ctypes
import os
import struct
import sys
import threading

LOOKUP, FORGET, GETATTR, OPEN, FLUSH, INIT, INTERRUPT = 1, 2, 3, 14, 25, 26, 36
FLAGS = 1 | 2  # MNT_FORCE, MNT_DETACH
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1]
try:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
except OSError:
    os._exit(77)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"held", folder.encode(), b"fuse", 0, options) != 0:
    os._exit(77)


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(flushing):
    while True:
        try:
            message = os.read(device, 1 << 20)
        except OSError:
            return
        _, kind, unique, node = struct.unpack_from("<IIQQ", message)

        def answer(body=b"", error=0):
            os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

        if kind == INIT:
            answer(struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 10, 65536, 1, 0, 0, 0))
        elif kind == LOOKUP:
            answer(struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2))
        elif kind == GETATTR:
            answer(struct.pack("<QII", 0, 0, 0) + attributes(node))
        elif kind == OPEN:
            answer(struct.pack("<QII", 1, 0, 0))
        elif kind == FLUSH:
            flushing.set()
        elif kind not in (FORGET, INTERRUPT):
            answer(error=-38)


flushing = threading.Event()
threading.Thread(target=serve, args=(flushing,), daemon=True).start()
pid = os.fork()
if pid == 0:
    os.open(f"{folder}/file", os.O_RDONLY | os.O_CLOEXEC)
    os.execv("/bin/sleep", ["sleep", "600"])
flushing.wait(20)
print(pid, flush=True)
sys.stdin.read()
os.kill(pid, 9)
libc.umount2(folder.encode(), FLAGS)
os._exit(0)
