"""A scripted MCP server over stdio. Usage: server.py MARK [WORD…]

delay=S     seconds before it answers `initialize`
pids=FILE   appends its pid to FILE at its start
lock=FILE   holds FILE exclusively; exits with 9 when another one does
bye=S       takes S seconds to end on TERM or end of input
stubborn    ignores TERM and the end of its input
family      starts a child in its group, one in a session of its own, and a daemon
noise       writes lines that are no messages, and 4 MB to standard error
key         exits with 3 unless KEY is set
silent      answers nothing
deaf        closes its output after the handshake and lives on
tools=N     lists N tools in pages of 50
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

MARK, WORDS = sys.argv[1], sys.argv[2:]
VALUES = dict(word.split("=", 1) for word in WORDS if "=" in word)


def sleep_until_term(*_):
    time.sleep(float(VALUES.get("bye", 0)))
    os._exit(0)


def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os.execvp("sleep", ["sleep", MARK])
        os._exit(0)
    os.wait()


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if "pids" in VALUES:
    with open(VALUES["pids"], "a") as file:
        file.write(f"{os.getpid()}\n")
if "lock" in VALUES:
    lock = open(VALUES["lock"], "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("the lock is held by another", file=sys.stderr)
        sys.exit(9)
if "key" in WORDS and not os.environ.get("KEY"):
    print("starting", file=sys.stderr)
    print("KEY missing", file=sys.stderr)
    sys.exit(3)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in WORDS else sleep_until_term)
if "family" in WORDS:
    subprocess.Popen(["sleep", MARK])
    subprocess.Popen(["sleep", MARK], start_new_session=True)
    daemon()
if "noise" in WORDS:
    print("Welcome!")
    print('{"not": "a message"}')
    sys.stderr.write(("x" * 99 + "\n") * 40_000)

count = int(VALUES.get("tools", 2))
names = ["who"] + [f"tool{n}" for n in range(1, count)]
calls = 0
for line in sys.stdin:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    if ident is None or "silent" in WORDS:
        continue
    if method == "initialize":
        time.sleep(float(VALUES.get("delay", 0)))
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
    elif method == "tools/list":
        first = int((message.get("params") or {}).get("cursor") or 0)
        page = [{"name": name, "inputSchema": {"type": "object"}} for name in names[first : first + 50]]
        result = {"tools": page}
        if first + 50 < len(names):
            result["nextCursor"] = str(first + 50)
    elif method == "tools/call":
        calls += 1
        text = f"{os.getpid()} {os.environ.get('KEY', '-')} {calls} {os.getcwd()}"
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = {}
    send({"id": ident, "result": result})
    if "deaf" in WORDS and method == "tools/list":
        os.close(1)
        while True:
            time.sleep(60)
if "stubborn" in WORDS:
    while True:
        time.sleep(60)
sleep_until_term()
