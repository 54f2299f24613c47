//! Revision 2026-07-28 to a URL: no session; headers that repeat what the body says; and a
//! subscription is a request whose answer does not end.

use gantry_mcp::{
    Envelope, frame,
    headers::{self, Mirrored},
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Which parameters of which tools go into headers, as far as lists have passed.
#[derive(Default)]
pub(super) struct Annotations(Mutex<HashMap<String, Vec<Mirrored>>>);

impl Annotations {
    fn tools(&self) -> MutexGuard<'_, HashMap<String, Vec<Mirrored>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at an answer to `tools/list`.
    pub fn learn(&self, answer: &[u8]) {
        let Ok(answer) = Envelope::parse(answer.to_vec().into()) else { return };
        let listed = answer.outcome().and_then(|page| frame::field(page, "tools"));
        let listed: Vec<Box<RawValue>> =
            listed.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        let mut tools = self.tools();
        for tool in listed {
            let Some(name) = frame::field(tool.get(), "name").and_then(frame::string) else {
                continue;
            };
            match headers::mirrored(&tool) {
                found if found.is_empty() => drop(tools.remove(&name)),
                found => drop(tools.insert(name, found)),
            }
        }
    }

    /// The headers of a request of this revision, `version` as its `_meta` has it.
    pub fn headers_of(&self, request: &Envelope, version: &str) -> HeaderMap {
        let mut map = HeaderMap::new();
        let mut put = |name: &str, value: &str| {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                map.insert(name, value);
            }
        };
        put(headers::PROTOCOL_VERSION, version);
        put(headers::METHOD, request.method());
        if let Some(name) = headers::name_of(request).flatten() {
            put(headers::NAME, &headers::encode(&name));
            if let Some(mirrored) =
                self.tools().get(&name).filter(|_| request.method() == "tools/call")
            {
                let arguments = request.param(&["arguments"]).unwrap_or("{}");
                for one in mirrored {
                    if let Some(value) = one.value(arguments) {
                        let name = format!("{}{}", headers::PARAMETER, one.name);
                        put(&name, &headers::encode(&value));
                    }
                }
            }
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(method: &str, params: Value) -> Envelope {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Envelope::parse(text.to_string().into()).expect("a request")
    }

    #[test]
    fn a_request_repeats_in_headers_what_it_says() {
        let known = Annotations::default();
        let list = |annotated: bool| {
            let mut region = json!({ "type": "string" });
            if annotated {
                region["x-mcp-header"] = json!("Region");
            }
            let tool = json!({ "name": "t", "inputSchema": { "properties": { "r": region } } });
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [tool] } }).to_string()
        };
        let call = request("tools/call", json!({ "name": "t", "arguments": { "r": "é" } }));
        let of = |message: &Envelope| known.headers_of(message, "2026-07-28");
        assert!(!of(&call).contains_key("mcp-param-region"));
        known.learn(list(true).as_bytes());
        let map = of(&call);
        assert_eq!(map["mcp-protocol-version"], "2026-07-28");
        assert_eq!(
            (&map["mcp-method"], &map["mcp-name"]),
            (&HeaderValue::from_static("tools/call"), &HeaderValue::from_static("t"))
        );
        assert_eq!(map["mcp-param-region"], "=?base64?w6k=?=");
        let read = of(&request("resources/read", json!({ "uri": "x:é" })));
        assert_eq!(read["mcp-name"], "=?base64?eDrDqQ==?=");
        assert!(!of(&request("tools/list", json!({}))).contains_key("mcp-name"));
        known.learn(list(false).as_bytes());
        assert!(!of(&call).contains_key("mcp-param-region"));
    }
}
