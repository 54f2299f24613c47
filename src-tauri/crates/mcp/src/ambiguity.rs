//! Messages that two readers would read differently.
//!
//! A message is judged here (which tool it calls, whose request it cancels) and then passed on as
//! it came. Of a member that is there twice, JSON parsers take the first or the last; some take
//! `Name` for `name`; some read names that others refuse. What was judged would not be what the
//! server does, so such a message of a client is not passed on.

use crate::{
    Envelope, Kind, frame,
    modern::{CAPABILITIES, CLIENT_INFO, LOG_LEVEL, VERSION},
};
use std::borrow::Cow;

/// The members of `_meta` that decide something here.
const META: [&str; 5] = ["progressToken", VERSION, CAPABILITIES, CLIENT_INFO, LOG_LEVEL];

/// The members of the parameters that decide something here.
fn decisive(method: &str) -> &'static [&'static str] {
    match method {
        "tools/call" => &["_meta", "name", "arguments"],
        "prompts/get" => &["_meta", "name"],
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => &["_meta", "uri"],
        "logging/setLevel" => &["_meta", "level"],
        "notifications/cancelled" => &["_meta", "requestId"],
        _ => &["_meta"],
    }
}

/// Why a message of a client could be understood in two ways; `None` when it cannot.
pub fn of(message: &Envelope) -> Option<String> {
    if let Some(name) = message.alike() {
        return Some(format!("the member `{name}` could be taken for another one by its name"));
    }
    if matches!(message.kind(), Kind::Result | Kind::Error) {
        return None;
    }
    let decisive = decisive(message.method());
    let of_params = match message.names() {
        Some(names) => among("params", &names, decisive),
        None => in_object("params", message.params()?, decisive),
    };
    of_params.or_else(|| in_object("_meta", message.param(&["_meta"])?, &META))
}

/// The same for an object: `decisive` members must be the only ones of their names.
fn in_object(place: &str, object: &str, decisive: &[&str]) -> Option<String> {
    if !object.trim_start().starts_with('{') {
        return None;
    }
    let Some(fields) = frame::fields(object) else {
        return Some(format!("`{place}` has a member whose name is not valid Unicode"));
    };
    let names: Vec<_> = fields.into_iter().map(|(name, _)| name).collect();
    among(place, &names, decisive)
}

/// The same, of the names of its members.
fn among(place: &str, names: &[Cow<'_, str>], decisive: &[&str]) -> Option<String> {
    if let Some(name) = decisive.iter().find(|name| is_twice(names.iter(), name)) {
        return Some(format!("`{name}` is there twice in `{place}`"));
    }
    let alike = names.iter().find(|name| is_like_one_of(name, decisive));
    alike.map(|name| format!("`{name}` in `{place}` could be taken for another member"))
}

fn is_twice<'a>(names: impl Iterator<Item = &'a Cow<'a, str>>, name: &str) -> bool {
    names.filter(|known| *known == name).nth(1).is_some()
}

/// Whether more than one member has the name of a step of this path.
pub(crate) fn on_path(object: &str, path: &[String]) -> bool {
    let mut place = Some(object);
    path.iter().any(|step| {
        let Some(here) = place.filter(|here| here.trim_start().starts_with('{')) else {
            return false;
        };
        let Some(fields) = frame::fields(here) else { return true };
        place = frame::field(here, step);
        is_twice(fields.iter().map(|(name, _)| name), step)
    })
}

/// Whether a name is none of these but differs from one by its case alone, or by what follows a
/// NUL, which for some readers ends it.
pub(crate) fn is_like_one_of(name: &str, known: &[&str]) -> bool {
    let read = name.split('\0').next().unwrap_or_default();
    !known.contains(&name) && known.iter().any(|known| is_alike(read, known))
}

/// As the most generous reader compares: `ſ` is an `s`, and the sign for Kelvin a `k`.
fn is_alike(name: &str, known: &str) -> bool {
    if name.is_ascii() {
        return name.eq_ignore_ascii_case(known);
    }
    let folded = |text: &str| -> String {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    };
    folded(name) == folded(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn why(method: &str, rest: &str) -> Option<String> {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{rest}}}"#);
        of(&Envelope::parse(Bytes::from(line)).expect("a message"))
    }

    #[test]
    fn what_two_readers_would_read_differently_is_seen() {
        for rest in [
            r#","params":{"name":"a","name":"b"}"#,
            r#","params":{"name":"a","n\u0061me":"b"}"#,
            r#","params":{"name":"a","Name":"b"}"#,
            r#","params":{"name\u0000x":"b","name":"a"}"#,
            r#","params":{"\ud800":1,"name":"a"}"#,
            r#","params":{"name":"a"},"Params":{"name":"b"}"#,
            r#","params":{"name":"a"},"param\u017f":{"name":"b"}"#,
            r#","params":{"name":"a"},"ID":7"#,
            r#","params":{"_meta":{"progressToken":1,"progressToken":2}}"#,
            r#","params":{"_meta":{"progressToken":1,"ProgressTo\u212aen":2}}"#,
            r#","params":{"_meta":{},"_Meta":{"progressToken":2}}"#,
        ] {
            assert!(why("tools/call", rest).is_some(), "{rest}");
        }
        assert!(why("ping", r#","Method":"tools/call""#).is_some());
        assert!(why("notifications/cancelled", r#","params":{"RequestId":2}"#).is_some());
    }

    #[test]
    fn what_has_one_meaning_passes() {
        for rest in [
            "",
            r#","params":[1,1]"#,
            r#","params":{"n\u0061me":"a","_meta":{"x":[],"X":{}},"arguments":{"Name":1,"a":1,"A":2}}"#,
            r#","extra":{"id":1},"params":{"name":"a","title":"Name","ſ":1,"x":1,"x":2}"#,
        ] {
            assert_eq!(why("tools/call", rest), None, "{rest}");
        }
        assert_eq!(why("x/own", r#","params":{"Name":1,"name":2,"URI":"u"}"#), None);
    }

    #[test]
    fn a_path_has_to_lead_to_one_value() {
        let path = ["o".to_owned(), "n".to_owned()];
        for (object, wanted) in [
            (r#"{"o":{"n":1},"a":1,"a":2}"#, false),
            (r#"{"o":{"n":1},"o":{"n":2}}"#, true),
            (r#"{"o":{"n":1,"n":2}}"#, true),
            (r#"{"o":{"n":1,"\ud800":2}}"#, true),
            (r#"{"o":[1]}"#, false),
            ("{}", false),
        ] {
            assert_eq!(on_path(object, &path), wanted, "{object}");
        }
    }
}
