//! The headers that revision 2026-07-28 wants beside a request, held against
//! its body: what a proxy reads must be what the server does.

use crate::modern::{HEADER_MISMATCH, VERSION, header_parameters};
use axum::http::HeaderMap;
use serde_json::{Value, json};

/// Whether a POST is of the revision: by its header or by its body.
pub fn are_modern(headers: &HeaderMap, message: &Value) -> bool {
    let legacy = |version: &str| version < "2026";
    match text(headers, "mcp-protocol-version") {
        Some(version) if legacy(version) => false,
        Some(_) => true,
        None => !message["params"]["_meta"][VERSION].is_null(),
    }
}

/// The error for headers that do not fit.
pub fn check(headers: &HeaderMap, message: &Value) -> Result<(), Value> {
    let params = &message["params"];
    let method = message["method"].as_str().unwrap_or_default();
    let version = params["_meta"][VERSION].as_str();
    // A version that the body does not give is the body's mistake, and answered as such.
    if let Some(version) = version
        && text(headers, "mcp-protocol-version") != Some(version)
    {
        return Err(mismatch("MCP-Protocol-Version"));
    }
    if text(headers, "mcp-method") != Some(method) {
        return Err(mismatch("Mcp-Method"));
    }
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => None,
    };
    if let Some(name) = name
        && text(headers, "mcp-name").and_then(decoded).as_deref() != Some(name)
    {
        return Err(mismatch("Mcp-Name"));
    }
    if method == "tools/call" {
        for (argument, header) in header_parameters(name.unwrap_or_default()) {
            let wanted = match &params["arguments"][&argument] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let given = text(headers, &header);
            if given.is_some() != wanted.is_some() || given.and_then(decoded) != wanted {
                return Err(mismatch(&header));
            }
        }
    }
    Ok(())
}

fn mismatch(header: &str) -> Value {
    let message = format!("The header {header} does not say what the body says");
    json!({ "code": HEADER_MISMATCH, "message": message })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The value behind `=?base64?…?=`, or the value itself; `None` for bad base64.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(base64(inner)?).ok(),
        None => Some(value.to_owned()),
    }
}

/// Strict: the standard alphabet, padded.
fn base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let bare = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in bare.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}
