"""A scripted ACP agent. Usage: agent.py LOG MARK

What it does in a turn is the last text of the prompt. Each message it gets is
appended to LOG as a line of JSON: {"at": monotonic, "pid": …, "got": message}.
AGENT_CAN holds what it offers: a comma list of http, load, resume, close, delete, list,
image, embed; dieload, sameid (faults); settings (modes, models, options); auth (wants a sign-in); question (asks the
user for it).
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
signed_in = "auth" not in CAN


def settings():
    """A session's settings as they are at first."""
    if "settings" not in CAN:
        return {}
    return {
        "modes": {"currentModeId": "ask", "availableModes": [
            {"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]},
        "models": {"currentModelId": "small", "availableModels": [
            {"modelId": "small", "name": "Small"}, {"modelId": "old", "name": "Old"}]},
        "configOptions": [
            {"id": "llm", "name": "Model", "category": "model", "type": "select",
             "currentValue": "small", "options": [{"value": "small", "name": "Small"},
                                                  {"value": "large", "name": "Large"}]},
            {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False},
        ],
    }


options = {}  # session -> config options


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


FORM = {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "minLength": 2}, "api_key": {"type": "string"}}}


def question(session, request, rest, scope=None):
    global next_ask
    next_ask += 1
    asked[next_ask] = (session, request)
    params = {"message": "Which?", **(scope or {"sessionId": session})}
    if rest == "url":
        params |= {"mode": "url", "elicitationId": "page-1", "url": "https://example.com/sign-in"}
    elif rest == "odd":
        params |= {"mode": "_browser", "target": "x"}
    else:
        params |= {"mode": "form", "requestedSchema": FORM, "toolCallId": "t1"}
    send(id=next_ask, method="elicitation/create", params=params)


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
    elif word == "question":
        question(session, request, rest)
    elif word == "takeback":
        question(session, request, rest)
        send(method="$/cancel_request", params={"requestId": next_ask})
    elif word == "complete":
        question(session, request, "url")
        send(method="elicitation/complete", params={"elicitationId": "page-1"})
    elif word == "asklater":
        update(session, sessionUpdate="tool_call", toolCallId="seen", title="Look", kind="read")
        ask(session, request, None, "seen")
    elif word == "withdraw":
        ask(session, request, "edit")
        send(method="$/cancel_request", params={"requestId": next_ask})
    elif word == "tool":
        update(session, sessionUpdate="tool_call", toolCallId="t1", title="Look", kind="read")
        update(session, sessionUpdate="tool_call_update", toolCallId="t1", status="completed")
        turns.pop(session, None)
        send(id=request, result={"stopReason": "end_turn", "usage": {"totalTokens": 7}})
    elif word == "mode":
        update(session, sessionUpdate="current_mode_update", currentModeId=rest)
        end(session, request)
    elif word == "error":
        turns.pop(session)
        error = {"code": -32603, "message": "Internal error", "data": {"details": "no credit"}}
        send(id=request, error=error)
    elif word == "half":
        say(session, "cut \ud83d here")
        send(id=request, result={"stopReason": "end_turn", "title": "\ud83d"})
    elif word == "formless":
        turns.pop(session)
        with lock:
            sys.stdout.write(json.dumps({"id": request, "error": "out of money"}) + "\n")
            sys.stdout.flush()
    elif word == "flood":
        sys.stderr.write("".join(f"line {n} of a long story\n" for n in range(50_000)) + "the end\n")
        sys.stderr.flush()
        os._exit(3)
    elif word == "betray":
        print("my key is", os.environ["OPENAI_API_KEY"], file=sys.stderr, flush=True)
        os._exit(4)
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
    elif word == "questionafter":
        question(session, request, "form")
    elif word != "deaf":
        end(session, request, "cancelled")


def opened(request, params, method):
    global sessions
    sessions += 1
    if method == "session/load" and "dieload" in CAN:
        print("the past is too heavy", file=sys.stderr, flush=True)
        os._exit(5)
    session = params.get("sessionId") or f"acp-{os.getpid()}-{sessions}"
    if "sameid" in CAN:
        session = "acp-same"
    if method == "session/load":
        say(session, "from the past", "user_message_chunk")
        say(session, "an old answer")
    update(session, sessionUpdate="available_commands_update",
           availableCommands=[{"name": "early", "description": method}])
    answer = settings()
    options[session] = answer.get("configOptions", [])
    if method == "session/new":
        answer["sessionId"] = session
    send(id=request, result=answer)


def listed(request, params):
    """Two pages, one of them about another folder; with `endless` a page that leads to itself."""
    here = {"cwd": params["cwd"], "updatedAt": "2026-11-30T10:00:00Z"}
    if "cursor" not in params:
        page = {"sessions": [{"sessionId": "old-1", "title": "From the past", **here},
                             {"sessionId": "other", "cwd": "/elsewhere"}], "nextCursor": "2"}
    else:
        page = {"sessions": [{"sessionId": "old-2", **here}]}
        if "endless" in CAN:
            page["nextCursor"] = "2"
    send(id=request, result=page)


def set_option(request, params):
    for option in options[params["sessionId"]]:
        if option["id"] == params["configId"]:
            option["currentValue"] = params["value"]
    send(id=request, result={"configOptions": options[params["sessionId"]]})


def main():
    global signed_in
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
            offers = {name: {} for name in ("resume", "close", "delete", "list") if name in CAN}
            methods = [{"id": "browser", "name": "In the browser"},
                       {"id": "shell", "name": "In a terminal", "type": "terminal",
                        "args": ["--sign-in"], "env": {"SIGN_IN": "1"}}]
            send(id=request, result={"protocolVersion": 1, "agentInfo": {"name": "scripted", "version": "1"},
                 "authMethods": methods if "auth" in CAN else [],
                 "agentCapabilities": {"loadSession": "load" in CAN, "sessionCapabilities": offers,
                                       "auth": {"logout": {}} if "auth" in CAN else {},
                                       "promptCapabilities": {"image": "image" in CAN,
                                                              "embeddedContext": "embed" in CAN},
                                       "mcpCapabilities": {"http": "http" in CAN}}})
        elif method == "authenticate":
            if "question" in CAN:
                question(None, request, "form", {"requestId": request})
            else:
                signed_in = True
                send(id=request, result={})
        elif method == "session/list":
            listed(request, params)
        elif method == "logout":
            signed_in = False
            send(id=request, result={})
        elif method in ("session/set_mode", "session/set_model", "session/delete"):
            send(id=request, result={})
        elif method == "session/set_config_option":
            set_option(request, params)
        elif method in ("session/new", "session/load", "session/resume"):
            if "refuse" in CAN or not signed_in:
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
            if "error" in message:
                say(session, f"error {message['error']['code']}")
                end(session, of)
                continue
            if "action" in message["result"]:
                result = message["result"]
                if session is None:
                    signed_in = result["action"] == "accept"
                    if signed_in:
                        send(id=of, result={})
                    else:
                        send(id=of, error={"code": -32603, "message": "not signed in"})
                    continue
                say(session, f"{result['action']} {json.dumps(result.get('content'))}")
                if result["action"] == "accept" and "content" not in result:
                    send(method="elicitation/complete", params={"elicitationId": "page-1"})
                end(session, of)
                continue
            outcome = message["result"]["outcome"]
            say(session, outcome.get("optionId") or outcome["outcome"])
            end(session, of)
    log(end="of input")


main()
