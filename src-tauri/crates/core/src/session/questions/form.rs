//! Whether a form's values are what its schema asks for: the plain fields that ACP allows.
//! Keywords and types that are newer than this program refuse nothing. Pure.

use regex::RegexBuilder;
use serde_json::{Map, Value};

/// Largest compiled pattern in bytes.
const LARGEST_PATTERN: usize = 1 << 20;

/// Checks the values of a form.
///
/// # Errors
/// What is wrong with the first wrong value; the message begins with its field.
pub(super) fn check(schema: &Value, content: &Map<String, Value>) -> Result<(), String> {
    let fields = schema["properties"].as_object();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if content.get(name).is_none_or(Value::is_null) {
            return Err(format!("content.{name}: must be given"));
        }
    }
    for (name, value) in content {
        let Some(field) = fields.and_then(|fields| fields.get(name)) else {
            return Err(format!("content.{name}: the form has no such field"));
        };
        check_field(field, value).map_err(|why| format!("content.{name}: {why}"))?;
    }
    Ok(())
}

fn check_field(field: &Value, value: &Value) -> Result<(), String> {
    match field["type"].as_str() {
        Some("string") => {
            let text = value.as_str().ok_or("must be a text")?;
            check_text(field, text)
        }
        Some("integer") => {
            let number = value.as_f64().filter(|number| number.fract() == 0.0);
            check_number(field, number.ok_or("must be a whole number")?)
        }
        Some("number") => check_number(field, value.as_f64().ok_or("must be a number")?),
        Some("boolean") if !value.is_boolean() => Err("must be true or false".to_owned()),
        Some("array") => check_list(field, value),
        _ => Ok(()),
    }
}

fn check_text(field: &Value, text: &str) -> Result<(), String> {
    if let Some(choices) = choices(field)
        && !choices.contains(&text)
    {
        return Err(format!("`{text}` is none of the choices"));
    }
    let length = text.chars().count() as u64;
    if let Some(least) = field["minLength"].as_u64().filter(|least| length < *least) {
        return Err(format!("must have at least {least} characters"));
    }
    if let Some(most) = field["maxLength"].as_u64().filter(|most| length > *most) {
        return Err(format!("must have at most {most} characters"));
    }
    if let Some(pattern) = field["pattern"].as_str() {
        // One that is not known here (it is JavaScript's) is left to the agent. Ours takes no
        // longer than the text is long, whatever the pattern.
        let known = RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build();
        if known.is_ok_and(|known| !known.is_match(text)) {
            return Err(format!("must match {pattern}"));
        }
    }
    let (fits, wanted) = match field["format"].as_str() {
        Some("email") => (is_email(text), "an e-mail address"),
        Some("uri") => (is_uri(text), "an address such as https://example.com"),
        Some("date") => (is_date(text), "a date such as 2026-01-31"),
        Some("date-time") => (is_date_time(text), "a time such as 2026-01-31T12:00:00Z"),
        _ => (true, ""),
    };
    if fits { Ok(()) } else { Err(format!("must be {wanted}")) }
}

fn check_number(field: &Value, number: f64) -> Result<(), String> {
    if let Some(least) = field["minimum"].as_f64().filter(|least| number < *least) {
        return Err(format!("must be at least {least}"));
    }
    if let Some(most) = field["maximum"].as_f64().filter(|most| number > *most) {
        return Err(format!("must be at most {most}"));
    }
    Ok(())
}

fn check_list(field: &Value, value: &Value) -> Result<(), String> {
    let values = value.as_array().ok_or("must be a list")?;
    let count = values.len() as u64;
    if let Some(least) = field["minItems"].as_u64().filter(|least| count < *least) {
        return Err(format!("choose at least {least}"));
    }
    if let Some(most) = field["maxItems"].as_u64().filter(|most| count > *most) {
        return Err(format!("choose at most {most}"));
    }
    let choices = choices(&field["items"]);
    for value in values {
        let text = value.as_str().ok_or("must be a list of texts")?;
        if choices.as_ref().is_some_and(|choices| !choices.contains(&text)) {
            return Err(format!("`{text}` is none of the choices"));
        }
    }
    Ok(())
}

/// What can be chosen: `enum`, or `const`s with titles.
fn choices(field: &Value) -> Option<Vec<&str>> {
    if let Some(values) = field["enum"].as_array() {
        return Some(values.iter().filter_map(Value::as_str).collect());
    }
    let titled = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array())?;
    Some(titled.iter().filter_map(|choice| choice["const"].as_str()).collect())
}

fn is_email(text: &str) -> bool {
    let is_plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    let parts = text.rsplit_once('@');
    is_plain && parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}

fn is_uri(text: &str) -> bool {
    let is_plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    let parts = text.split_once(':');
    is_plain
        && parts.is_some_and(|(scheme, rest)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                && !rest.is_empty()
        })
}

/// The number in a text of this many digits.
fn digits(text: &str, length: usize) -> Option<u32> {
    let fits = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let (time, is_zone) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, true),
        None => match time.rfind(['+', '-']) {
            Some(at) => {
                let zone = time[at + 1..].split_once(':');
                let fits = zone.is_some_and(|(hours, minutes)| {
                    digits(hours, 2).is_some_and(|hours| hours < 24)
                        && digits(minutes, 2).is_some_and(|minutes| minutes < 60)
                });
                (&time[..at], fits)
            }
            None => (time, false),
        },
    };
    let (whole, fraction) = time.split_once('.').map_or((time, "0"), |parts| parts);
    let mut parts = whole.split(':');
    let mut below = |limit: u32| {
        parts.next().and_then(|part| digits(part, 2)).is_some_and(|number| number < limit)
    };
    // A leap second has the number 60.
    let is_time = below(24) && below(60) && below(61) && parts.next().is_none();
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_date(date) && is_zone && is_time && is_fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(schema: Value, value: Value) -> Result<(), String> {
        let schema = json!({"type": "object", "properties": {"f": schema}, "required": []});
        let Value::Object(content) = json!({ "f": value }) else { unreachable!() };
        check(&schema, &content)
    }

    #[test]
    fn every_kind_of_field_takes_what_fits_and_says_what_does_not() {
        let text = |more: Value| {
            let mut schema = json!({"type": "string"});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        let titled = json!([{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]);
        let list =
            json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": titled}});
        let plain_list = json!({"type": "array", "items": {"type": "string", "enum": ["a"]}});
        for (schema, good, bad, why) in [
            (text(json!({})), json!("x"), json!(1), "text"),
            (text(json!({"minLength": 2})), json!("語語"), json!("語"), "at least 2"),
            (text(json!({"maxLength": 2})), json!("語語"), json!("abc"), "at most 2"),
            (text(json!({"pattern": "^[a-z]+$"})), json!("abc"), json!("ABC"), "match"),
            (text(json!({"enum": ["a", "b"]})), json!("a"), json!("c"), "choices"),
            (text(json!({"oneOf": titled})), json!("b"), json!("B"), "choices"),
            (text(json!({"format": "email"})), json!("a@b.c"), json!("a b@c"), "e-mail"),
            (text(json!({"format": "uri"})), json!("mailto:x"), json!("example"), "address"),
            (text(json!({"format": "date"})), json!("2028-02-29"), json!("2027-02-29"), "date"),
            (json!({"type": "integer", "minimum": 1}), json!(1), json!(0), "at least 1"),
            (json!({"type": "integer"}), json!(-3), json!(1.5), "whole"),
            (json!({"type": "number", "maximum": 1.5}), json!(1.5), json!(1.6), "at most 1.5"),
            (json!({"type": "number"}), json!(1), json!("1"), "number"),
            (json!({"type": "boolean"}), json!(false), json!("no"), "true or false"),
            (list.clone(), json!(["a", "b"]), json!([]), "at least 1"),
            (list.clone(), json!(["a"]), json!(["a", "b", "a"]), "at most 2"),
            (list, json!(["b"]), json!(["c"]), "choices"),
            (plain_list, json!(["a"]), json!([1]), "texts"),
        ] {
            assert_eq!(field(schema.clone(), good.clone()), Ok(()), "{schema} {good}");
            let said = field(schema.clone(), bad.clone()).unwrap_err();
            assert!(
                said.starts_with("content.f: ") && said.contains(why),
                "{schema} {bad}: {said}"
            );
        }
    }

    #[test]
    fn times_are_those_of_the_internet() {
        for good in ["2026-01-31T12:00:00Z", "2026-01-31t12:00:60.25+05:30"] {
            assert!(is_date_time(good), "{good}");
        }
        for bad in [
            "2026-01-31",
            "2026-01-31T12:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00:00.Z",
        ] {
            assert!(!is_date_time(bad), "{bad}");
        }
    }

    #[test]
    fn required_fields_are_required_and_others_are_not_taken() {
        let schema = json!({"properties": {"a": {"type": "string"}}, "required": ["a"]});
        let of = |value: Value| check(&schema, value.as_object().unwrap());
        assert!(of(json!({"a": "x"})).is_ok());
        assert!(of(json!({})).unwrap_err().contains("content.a: must be given"));
        assert!(of(json!({"a": "x", "b": 1})).unwrap_err().contains("no such field"));
    }

    #[test]
    fn what_is_newer_or_not_known_refuses_nothing() {
        let lookahead = json!({"type": "string", "pattern": "^(?=x)x$"});
        assert!(field(lookahead, json!("y")).is_ok());
        assert!(field(json!({"type": "_colour"}), json!({"r": 1})).is_ok());
        assert!(field(json!({"type": "string", "format": "new"}), json!("x")).is_ok());
    }
}
