"""A stdio MCP server with one tool. Usage: server.py LOG MARK NAME DELAY_SECONDS

Appends {"at": monotonic, "served": NAME} to LOG when it answers tools/list.
"""

import json
import sys
import time

LOG, _, NAME, DELAY = sys.argv[1:5]
time.sleep(float(DELAY))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"],
                  "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": NAME, "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": f"{NAME}_tool", "inputSchema": {"type": "object"}}]}
    else:
        result = {}
    if method == "tools/list":
        # Before the answer leaves: afterwards this process may wait for the processor
        # while the agent gets its session already.
        with open(LOG, "a") as file:
            file.write(json.dumps({"at": time.monotonic(), "served": NAME}) + "\n")
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
