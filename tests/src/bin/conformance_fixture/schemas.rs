//! Schemas that the suite looks into.

use serde_json::{Value, json};

/// SEP-1613 and SEP-2106: an input schema with words of JSON Schema 2020-12
/// that only a server which takes schemas as they are passes on.
pub fn input_2020_12() -> Value {
    let requires = |name: &str| json!({ "required": [name] });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [requires("phone"), requires("email")] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": requires("phone"),
        "else": requires("email"),
        "additionalProperties": false,
    })
}

/// Two texts, both required.
pub fn contact() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    json!({
        "type": "object",
        "properties": { "username": text("User's response"), "email": text("User's email address") },
        "required": ["username", "email"],
    })
}

/// SEP-1034: a default for every simple type.
pub fn with_defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "User name", "default": "John Doe" },
            "age": { "type": "integer", "description": "User age", "default": 30 },
            "score": { "type": "number", "description": "User score", "default": 95.5 },
            "status": { "type": "string", "description": "User status",
                        "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "description": "Verified", "default": true },
        },
        "required": [],
    })
}

/// SEP-1330: every form of an enumeration.
pub fn with_choices() -> Value {
    let plain = ["option1", "option2", "option3"];
    let titled = |word: &str| -> Vec<Value> {
        let names = ["First", "Second", "Third"].into_iter().zip(1..);
        names
            .map(|(name, n)| json!({ "const": format!("value{n}"), "title": format!("{name} {word}") }))
            .collect()
    };
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "description": "One", "enum": plain },
            "titledSingle": { "type": "string", "description": "One with a title", "oneOf": titled("Option") },
            "legacyEnum": { "type": "string", "description": "One, the older form",
                            "enum": ["opt1", "opt2", "opt3"],
                            "enumNames": ["Option One", "Option Two", "Option Three"] },
            "untitledMulti": { "type": "array", "description": "Several", "minItems": 1, "maxItems": 3,
                               "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "description": "Several with titles", "minItems": 1, "maxItems": 3,
                             "items": { "anyOf": titled("Choice") } },
        },
        "required": [],
    })
}
