//! JSON Schema from the TypeScript that the wire types make of themselves, so
//! that the wire stays declared once. Reads exactly what `ts-rs` writes.

use serde_json::{Map, Value, json};

/// Every declared type by its name, as JSON Schema; references begin with `prefix`.
///
/// # Errors
/// Where the text is not what was expected.
pub(crate) fn declarations(text: &str, prefix: &str) -> Result<Map<String, Value>, String> {
    let mut reader = Reader { text, at: 0, prefix };
    let mut all = Map::new();
    loop {
        let about = reader.gap();
        if !reader.eat("export type ") {
            return Ok(all);
        }
        let name = reader.word();
        reader.expect("=")?;
        let mut schema = reader.union()?;
        reader.expect(";")?;
        describe(&mut schema, &about);
        all.insert(name, schema);
    }
}

/// The schema of one type expression.
///
/// # Errors
/// See [`declarations`].
pub(crate) fn of(text: &str, prefix: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0, prefix };
    let schema = reader.union()?;
    reader.gap();
    if reader.rest().is_empty() { Ok(schema) } else { Err(reader.problem("the end")) }
}

fn describe(schema: &mut Value, about: &str) {
    if let (Value::Object(fields), false) = (schema, about.is_empty()) {
        fields.insert("description".to_owned(), json!(about));
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    prefix: &'a str,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn problem(&self, wanted: &str) -> String {
        let rest: String = self.rest().chars().take(60).collect();
        format!("expected {wanted} at `{rest}`")
    }

    /// Over white space and comments; gives the text of the last comment.
    fn gap(&mut self) -> String {
        let mut about = String::new();
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if let Some(comment) = trimmed.strip_prefix("/*") {
                let end = comment.find("*/").unwrap_or(comment.len());
                let lines = comment[..end].lines().map(|line| line.trim().trim_matches('*').trim());
                about = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
                self.at += (end + 4).min(trimmed.len());
            } else if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else {
                return about;
            }
        }
    }

    fn eat(&mut self, wanted: &str) -> bool {
        self.gap();
        let is_there = self.rest().starts_with(wanted);
        if is_there {
            self.at += wanted.len();
        }
        is_there
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        if self.eat(wanted) { Ok(()) } else { Err(self.problem(wanted)) }
    }

    fn word(&mut self) -> String {
        self.gap();
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        rest[..length].to_owned()
    }

    fn union(&mut self) -> Result<Value, String> {
        self.eat("|");
        let mut choices = vec![self.intersection()?];
        while self.eat("|") {
            choices.push(self.intersection()?);
        }
        if choices.len() == 1 {
            return Ok(choices.remove(0));
        }
        let words: Option<Vec<_>> = choices.iter().map(|choice| choice.get("const")).collect();
        Ok(match words {
            Some(words) => json!({ "enum": words }),
            None => json!({ "anyOf": choices }),
        })
    }

    fn intersection(&mut self) -> Result<Value, String> {
        let mut parts = vec![self.list()?];
        while self.eat("&") {
            parts.push(self.list()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { json!({ "allOf": parts }) })
    }

    fn list(&mut self) -> Result<Value, String> {
        let mut one = self.single()?;
        while self.eat("[]") {
            one = json!({ "type": "array", "items": one });
        }
        Ok(one)
    }

    fn single(&mut self) -> Result<Value, String> {
        if self.eat("(") {
            let inner = self.union()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.eat("{") {
            return self.object();
        }
        if self.eat("\"") {
            let rest = self.rest();
            let end = rest.find('"').ok_or_else(|| self.problem("a closing quote"))?;
            self.at += end + 1;
            return Ok(json!({ "const": rest[..end] }));
        }
        let word = self.word();
        Ok(match word.as_str() {
            "string" => json!({ "type": "string" }),
            "number" | "bigint" => json!({ "type": "number" }),
            "boolean" => json!({ "type": "boolean" }),
            "null" => json!({ "type": "null" }),
            "true" | "false" => json!({ "const": word == "true" }),
            "unknown" | "any" => json!({}),
            "Array" => {
                self.expect("<")?;
                let items = self.union()?;
                self.expect(">")?;
                json!({ "type": "array", "items": items })
            }
            "Record" => {
                self.expect("<")?;
                self.union()?;
                self.expect(",")?;
                let values = self.union()?;
                self.expect(">")?;
                json!({ "type": "object", "additionalProperties": values })
            }
            // A record of nothing is how an empty object is written.
            "never" | "symbol" => json!(true),
            "" => return Err(self.problem("a type")),
            _ => json!({ "$ref": format!("{}{word}", self.prefix) }),
        })
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        loop {
            let about = self.gap();
            if self.eat("}") {
                break;
            }
            if self.eat("[") {
                let end = self.rest().find(']').ok_or_else(|| self.problem("]"))?;
                self.at += end + 1;
                self.eat("?");
                self.expect(":")?;
                let values = self.union()?;
                self.eat(",");
                self.expect("}")?;
                return Ok(json!({ "type": "object", "additionalProperties": values }));
            }
            let is_quoted = self.eat("\"");
            let name = self.word();
            if is_quoted {
                self.expect("\"")?;
            }
            let is_optional = self.eat("?");
            self.expect(":")?;
            let mut schema = self.union()?;
            describe(&mut schema, &about);
            if !is_optional {
                required.push(name.clone());
            }
            properties.insert(name, schema);
            if !self.eat(",") {
                self.eat(";");
            }
        }
        let mut object = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            object["required"] = json!(required);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_is_written_is_read() {
        for (text, wanted) in [
            ("string", json!({"type": "string"})),
            ("\"a\" | \"b\"", json!({"enum": ["a", "b"]})),
            ("number | null", json!({"anyOf": [{"type": "number"}, {"type": "null"}]})),
            ("Array<X>", json!({"type": "array", "items": {"$ref": "#/X"}})),
            (
                "{ [key in string]?: X }",
                json!({"type": "object", "additionalProperties": {"$ref": "#/X"}}),
            ),
            ("Record<symbol, never>", json!({"type": "object", "additionalProperties": true})),
            (
                "{ /** one */ a: string, b?: boolean, }",
                json!({"type": "object", "properties": {
                    "a": {"type": "string", "description": "one"}, "b": {"type": "boolean"}}, "required": ["a"]}),
            ),
            (
                "{ \"type\": \"x\" } & Y",
                json!({"allOf": [{"type": "object", "properties": {"type": {"const": "x"}},
                    "required": ["type"]}, {"$ref": "#/Y"}]}),
            ),
        ] {
            assert_eq!(of(text, "#/"), Ok(wanted), "{text}");
        }
        assert!(of("{ a string }", "#/").is_err());
    }

    #[test]
    fn all_of_the_wire_is_read_and_every_reference_leads_somewhere() {
        let text = gantry_core::api::typescript();
        let all = declarations(&text, "#/").unwrap();
        assert_eq!(all.len(), text.matches("export type ").count());
        let written = Value::Object(all.clone()).to_string();
        for reference in written.split("\"#/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(all.contains_key(name), "{name} is declared nowhere");
        }
        assert!(all["ServerView"]["required"].as_array().unwrap().contains(&json!("name")));
    }
}
