"""A scripted ACP agent. Usage: agent.py LOG MARK

What it does in a turn is the last text of the prompt. Each message it gets is
appended to LOG as a line of JSON: {"at": monotonic, "pid": …, "got": message}.
AGENT_CAN holds what it offers: a comma list of http, load, resume, close.
"""

import json
import os
import subprocess
import sys
import threading
import time

LOG, MARK = sys.argv[1], sys.argv[2]
CAN = os.environ.get("AGENT_CAN", "http").split(",")
lock = threading.Lock()
sessions = 0
turns = {}  # session -> (request id, word)
asked = {}  # our request id -> (session, prompt request id)
next_ask = 1000


def log(**what):
    with open(LOG, "a") as file:
        file.write(json.dumps({"at": time.monotonic(), "pid": os.getpid(), **what}) + "\n")


def send(**message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def update(session, **what):
    send(method="session/update", params={"sessionId": session, "update": what})


def say(session, text, kind="agent_message_chunk"):
    update(session, sessionUpdate=kind, content={"type": "text", "text": text})


def end(session, request, reason="end_turn"):
    turns.pop(session, None)
    send(id=request, result={"stopReason": reason})


def ask(session, request, kind=None, call="call-1"):
    global next_ask
    next_ask += 1
    asked[next_ask] = (session, request)
    tool_call = {"toolCallId": call, "title": "Do it", "rawInput": {"x": 1}}
    if kind:
        tool_call["kind"] = kind
    options = [
        {"optionId": "no", "name": "No", "kind": "reject_once"},
        {"optionId": "ever", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    ]
    params = {"sessionId": session, "toolCall": tool_call, "options": options}
    send(id=next_ask, method="session/request_permission", params=params)


def prompt(request, params):
    session = params["sessionId"]
    text = params["prompt"][-1]["text"]
    word, _, rest = text.partition(" ")
    turns[session] = (request, word)
    if word == "say":
        say(session, rest)
        end(session, request)
    elif word == "count":
        for n in range(int(rest)):
            say(session, f"{n} ")
        end(session, request)
    elif word == "odd":
        update(session, sessionUpdate="hologram", z=1, a={"deep": [1, None]})
        update(session, sessionUpdate="available_commands_update",
               availableCommands=[{"name": "fix", "description": "fixes"}])
        end(session, request, "max_tokens")
    elif word == "ask":
        ask(session, request, rest or None)
    elif word == "asklater":
        update(session, sessionUpdate="tool_call", toolCallId="seen", title="Look", kind="read")
        ask(session, request, None, "seen")
    elif word == "error":
        turns.pop(session)
        error = {"code": -32603, "message": "Internal error", "data": {"details": "no credit"}}
        send(id=request, error=error)
    elif word == "die":
        say(session, "last words")
        print("boom: the disk is full", file=sys.stderr, flush=True)
        os._exit(int(rest))
    elif word == "spawn":
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.Popen(["sh", "-c", f"trap '' TERM; sleep {MARK} & wait; sleep {MARK}"], **quiet)
        subprocess.Popen(["setsid", "sh", "-c", f"(sleep {MARK} &) ; sleep {MARK}"], **quiet)
        time.sleep(0.2)
        end(session, request)
    # hang, ignore, endturn, askafter: until they are cancelled


def late(session, request):
    time.sleep(4)
    for n in range(22):
        say(session, f"late {n} ")
    end(session, request)


def cancel(session):
    if session not in turns:
        return
    request, word = turns[session]
    if word == "ignore":
        threading.Thread(target=late, args=(session, request), daemon=True).start()
    elif word == "endturn":
        end(session, request)
    elif word == "askafter":
        ask(session, request)
    elif word != "deaf":
        end(session, request, "cancelled")


def opened(request, params, method):
    global sessions
    sessions += 1
    session = params.get("sessionId") or f"acp-{os.getpid()}-{sessions}"
    if method == "session/load":
        say(session, "from the past", "user_message_chunk")
        say(session, "an old answer")
    update(session, sessionUpdate="available_commands_update",
           availableCommands=[{"name": "early", "description": method}])
    send(id=request, result={"sessionId": session} if method == "session/new" else {})


def main():
    print("welcome to the scripted agent", flush=True)
    print("scripted agent is here", file=sys.stderr, flush=True)
    if "mute" in CAN:
        for _ in sys.stdin:
            pass
        return
    if "exit" in CAN:
        print("KEY missing", file=sys.stderr, flush=True)
        sys.exit(7)
    for line in sys.stdin:
        message = json.loads(line)
        log(got=message)
        method, request, params = message.get("method"), message.get("id"), message.get("params")
        if method == "initialize":
            offers = {name: {} for name in ("resume", "close") if name in CAN}
            send(id=request, result={"protocolVersion": 1, "agentInfo": {"name": "scripted", "version": "1"},
                 "agentCapabilities": {"loadSession": "load" in CAN, "sessionCapabilities": offers,
                                       "mcpCapabilities": {"http": "http" in CAN}}})
        elif method in ("session/new", "session/load", "session/resume"):
            if "refuse" in CAN:
                send(id=request, error={"code": -32000, "message": "Authentication required"})
            elif "slow" not in CAN:
                opened(request, params, method)
        elif method == "session/prompt":
            prompt(request, params)
        elif method == "session/cancel":
            cancel(params["sessionId"])
        elif method == "session/close":
            send(id=request, result={})
        elif request in asked:
            session, of = asked.pop(request)
            outcome = message["result"]["outcome"]
            say(session, outcome.get("optionId") or outcome["outcome"])
            end(session, of)
    log(end="of input")


main()
