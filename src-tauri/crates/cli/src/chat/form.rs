//! A question of the agent on the terminal: one value after the other.

use crate::terminal::plain;
use serde_json::{Map, Value, json};

/// What declines a question.
const NO: &str = "/no";

/// A question and the values that were given so far.
pub struct Form {
    message: String,
    /// Of a page that is to be opened.
    url: Option<String>,
    fields: Vec<Field>,
    at: usize,
    values: Map<String, Value>,
    /// What was wrong with the last line.
    problem: Option<String>,
    /// Nothing of it was shown yet.
    is_fresh: std::cell::Cell<bool>,
}

struct Field {
    name: String,
    title: String,
    about: String,
    kind: String,
    is_required: bool,
    /// Values and titles of what can be chosen.
    choices: Vec<(String, String)>,
    default: Value,
}

impl Form {
    /// Of a `question_request`.
    pub fn new(question: &Value) -> Self {
        let schema = &question["requestedSchema"];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let fields = properties
            .map(|(name, rules)| Field {
                name: name.clone(),
                title: rules["title"].as_str().unwrap_or(name).to_owned(),
                about: rules["description"].as_str().unwrap_or_default().to_owned(),
                kind: rules["type"].as_str().unwrap_or_default().to_owned(),
                is_required: required.contains(&name.as_str()),
                choices: choices(if rules["type"] == "array" { &rules["items"] } else { rules }),
                default: rules["default"].clone(),
            })
            .collect();
        Self {
            message: question["message"].as_str().unwrap_or_default().to_owned(),
            url: question["url"].as_str().map(str::to_owned),
            fields,
            at: 0,
            values: Map::new(),
            problem: None,
            is_fresh: true.into(),
        }
    }

    /// What is shown before the next line is read.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.is_fresh.replace(false) {
            text.push_str(&format!("? {}\n", plain(&self.message)));
            if let Some(url) = &self.url {
                text.push_str(&format!("  {}\n", plain(url)));
            } else {
                text.push_str(&format!("  ({NO} declines)\n"));
            }
        }
        if let Some(problem) = &self.problem {
            text.push_str(&format!("  {}\n", plain(problem)));
        }
        match self.fields.get(self.at) {
            Some(field) => text.push_str(&field.text()),
            None if self.url.is_some() => {
                text.push_str("  Open this page in a browser, then write y; n declines\n");
            }
            None => text.push_str("  y sends it, n declines\n"),
        }
        text
    }

    /// The next line; the answer when it was the last that was needed.
    pub fn take(&mut self, line: &str) -> Option<(&'static str, Option<Value>)> {
        self.problem = None;
        let line = line.trim();
        if line == NO {
            return Some(("decline", None));
        }
        let Some(field) = self.fields.get(self.at) else {
            return match line {
                "y" | "yes" if self.url.is_some() => Some(("accept", None)),
                "y" | "yes" => Some(("accept", Some(Value::Object(self.values.clone())))),
                "n" | "no" => Some(("decline", None)),
                _ => None,
            };
        };
        match field.read(line) {
            Ok(value) => {
                if let Some(value) = value {
                    self.values.insert(field.name.clone(), value);
                }
                self.at += 1;
                let is_done = self.at == self.fields.len();
                is_done.then(|| ("accept", Some(Value::Object(self.values.clone()))))
            }
            Err(why) => {
                self.problem = Some(why);
                None
            }
        }
    }
}

impl Field {
    fn text(&self) -> String {
        let mut text = format!("  {}", plain(&self.title));
        if !self.about.is_empty() {
            text.push_str(&format!(" ({})", plain(&self.about)));
        }
        if !self.is_required && self.default.is_null() {
            text.push_str(" [may be empty]");
        } else if !self.default.is_null() {
            text.push_str(&format!(" [empty: {}]", plain(&self.default.to_string())));
        }
        match self.kind.as_str() {
            "boolean" => text.push_str(" y/n"),
            "array" => text.push_str(", numbers with spaces between them"),
            _ => {}
        }
        text.push('\n');
        for (number, (_, title)) in self.choices.iter().enumerate() {
            text.push_str(&format!("    {}) {}\n", number + 1, plain(title)));
        }
        text
    }

    /// The value that a line means; none when it is left out.
    fn read(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() {
            return match (&self.default, self.is_required) {
                (Value::Null, true) => Err("this is needed".to_owned()),
                (Value::Null, false) => Ok(None),
                (default, _) => Ok(Some(default.clone())),
            };
        }
        let choice = |word: &str| -> Result<Value, String> {
            let numbered = word.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let found = numbered.and_then(|at| self.choices.get(at));
            let named =
                || self.choices.iter().find(|(value, title)| value == word || title == word);
            let (value, _) = found.or_else(named).ok_or("write the number of a choice")?;
            Ok(json!(value))
        };
        let value = match self.kind.as_str() {
            "string" if self.choices.is_empty() => json!(line),
            "string" => choice(line)?,
            "integer" => json!(line.parse::<i64>().map_err(|_| "write a whole number")?),
            "number" => {
                let number = line.parse::<f64>().ok().filter(|number| number.is_finite());
                json!(number.ok_or("write a number")?)
            }
            "boolean" => match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => json!(true),
                "n" | "no" | "false" => json!(false),
                _ => return Err("write y or n".to_owned()),
            },
            "array" => {
                let words = line.split([' ', ',']).filter(|word| !word.is_empty());
                Value::Array(words.map(choice).collect::<Result<_, _>>()?)
            }
            _ => return Err(format!("this kind of field is not known here; {NO} declines")),
        };
        Ok(Some(value))
    }
}

fn choices(rules: &Value) -> Vec<(String, String)> {
    if let Some(plain) = rules["enum"].as_array() {
        let texts = plain.iter().filter_map(Value::as_str);
        return texts.map(|text| (text.to_owned(), text.to_owned())).collect();
    }
    let titled = rules["oneOf"].as_array().or_else(|| rules["anyOf"].as_array());
    let titled = titled.into_iter().flatten();
    titled
        .filter_map(|choice| {
            let value = choice["const"].as_str()?;
            Some((value.to_owned(), choice["title"].as_str().unwrap_or(value).to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        Form::new(&json!({ "message": "Where\u{1b}?", "requestedSchema": {
            "required": ["name", "size"],
            "properties": {
                "name": {"type": "string", "title": "Name"},
                "size": {"type": "integer"},
                "public": {"type": "boolean", "default": true},
                "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "share": {"type": "number"},
            },
        }}))
    }

    #[test]
    fn the_values_are_asked_for_one_by_one() {
        let mut form = form();
        assert!(form.text().starts_with("? Where?\n"), "{}", form.text());
        assert_eq!(form.take(""), None);
        assert!(form.text().contains("this is needed"));
        for line in ["Ada", "many", "7", "", "1", "2 1"] {
            assert_eq!(form.take(line), None, "{line}");
        }
        let (action, content) = form.take("").unwrap();
        assert_eq!(action, "accept");
        let expected =
            json!({"name": "Ada", "size": 7, "public": true, "colour": "r", "tags": ["b", "a"]});
        assert_eq!(content, Some(expected));
    }

    #[test]
    fn a_form_and_a_page_can_be_declined() {
        assert_eq!(form().take("/no"), Some(("decline", None)));
        let page = json!({"message": "Sign in", "mode": "url", "url": "https://example.com/x"});
        let mut page = Form::new(&page);
        assert!(page.text().contains("https://example.com/x"));
        assert_eq!(page.take("perhaps"), None);
        assert_eq!(page.take("y"), Some(("accept", None)));
        assert_eq!(page.take("n"), Some(("decline", None)));
    }
}
