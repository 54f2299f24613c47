"""What the property-based test sends, made harmless and sometimes true.

Schemathesis makes requests from the OpenAPI document. Programs that it names
are replaced by fake ones and addresses lead nowhere, so that nothing of the
machine is started. Every other request is led to what is really there, so that
more than refusals is seen.
"""

import json
import os
import zlib

import schemathesis

AGENT = os.environ["FAKE_AGENT"]
SERVER = os.environ["FAKE_MCP"]
SESSION = os.environ["REAL_SESSION"]
PROJECT = os.environ["REAL_PROJECT"]
NOWHERE = "http://127.0.0.1:9/"
# What would take away what the others are led to.
DESTRUCTIVE = ("session_delete", "servers_remove", "agents_remove")


def tame(value, key="", above=()):
    """The same without programs and addresses of the machine."""
    if isinstance(value, dict):
        tamed = {name: tame(item, name, (*above, key)) for name, item in value.items()}
        # A hundred servers for ever are no longer a test of the interface.
        if "persistent" in tamed:
            tamed["persistent"] = False
        return tamed
    if isinstance(value, list):
        return [tame(item, key, above) for item in value]
    if isinstance(value, str) and value:
        if key == "command":
            return SERVER if "servers" in above or "context_servers" in above else AGENT
        if key in ("url", "base_url"):
            return NOWHERE
        if key in ("path", "app", "cwd"):
            return PROJECT + "/none.json"
    if isinstance(value, (int, float)) and key in ("ready_timeout_ms", "startTimeoutMs"):
        return min(value, 2000)
    return value


def lead(path, body):
    """Names things that are there."""
    for field, real in (
        ("session", SESSION),
        ("session_id", SESSION),
        ("user_id", "tester"),
        ("project_id", "p"),
        ("project_dir", PROJECT),
        ("agent", "fake"),
        ("id", "fake"),
        ("tool", "echo"),
    ):
        if isinstance(body.get(field), str):
            body[field] = real
    # What is saved is another one: this one stays as it is.
    if "/servers_" in path and isinstance(body.get("name"), str):
        body["name"] = "fuzzed" if path.endswith("_save") else "kept"
    if path.endswith("/servers_call") and len(str(body.get("arguments"))) % 3 == 0:
        body["name"] = "broken"
    if path.endswith("/servers_enable"):
        body["enabled"] = True
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    body = tame(body)
    config = body.get("config")
    if case.path == "/api/servers_save" and isinstance(config, dict) and config.get("command"):
        config["command"] = SERVER
    seen = zlib.crc32(json.dumps(body, sort_keys=True, default=str).encode())
    if seen % 2 and not case.path.endswith(DESTRUCTIVE):
        body = lead(case.path, body)
    case.body = body
