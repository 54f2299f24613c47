//! What no system can start a program with, said before it is tried.

use crate::{Error, Result};
use std::collections::BTreeMap;

/// Holds the words of a command line and the variables of an environment against what a
/// system takes. `field` is where they stand.
///
/// # Errors
/// Invalid; the message names the field.
pub(super) fn check(
    field: &str,
    command: Option<&str>,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> Result<()> {
    let has_nul = |place: &str| {
        Err(Error::invalid(format!("{field}.{place}: must not hold the character U+0000")))
    };
    if command.is_some_and(|command| command.contains('\0')) {
        return has_nul("command");
    }
    if let Some(at) = args.iter().position(|arg| arg.contains('\0')) {
        return has_nul(&format!("args[{at}]"));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Error::invalid(format!(
                "{field}.env: {name:?} cannot be the name of a variable"
            )));
        }
        if value.contains('\0') {
            return has_nul(&format!("env.{name}"));
        }
    }
    Ok(())
}

/// Holds headers against what HTTP takes. `field` is where they stand.
///
/// # Errors
/// Invalid; the message names the header.
pub(super) fn check_headers(field: &str, headers: &BTreeMap<String, String>) -> Result<()> {
    // RFC 9110, section 5.6.2 and 5.5.
    let of_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (name, value) in headers {
        if name.is_empty() || !name.chars().all(of_name) {
            return Err(Error::invalid(format!(
                "{field}.headers: {name:?} cannot be the name of a header"
            )));
        }
        if value.contains(|c: char| c.is_control() && c != '\t') {
            return Err(Error::invalid(format!(
                "{field}.headers.{name}: must not hold line breaks or other control characters"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_system_takes_is_named_by_its_field() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let none = BTreeMap::new();
        let odd = words(&["a b", "\"'&%\n网页", ""]);
        assert!(check("f", Some("x"), &odd, &env("A", "=\n")).is_ok());
        for (result, place) in [
            (check("f", Some("a\0"), &[], &none), "f.command: "),
            (check("f", None, &words(&["a", "b\0"]), &none), "f.args[1]: "),
            (check("f", None, &[], &env("A", "\0")), "f.env.A: "),
            (check("f", None, &[], &env("", "x")), "f.env: "),
            (check("f", None, &[], &env("A=B", "x")), "f.env: "),
            (check("f", None, &[], &env("A\0", "x")), "f.env: "),
        ] {
            let message = result.unwrap_err().message;
            assert!(message.starts_with(place), "{message}");
        }
    }

    #[test]
    fn headers_are_one_line_each() {
        let header = |name: &str, value: &str| {
            check_headers("f", &BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        assert!(header("X-Any_1", "Bearer ${env:T}\tü").is_ok());
        for (name, value) in [("", "x"), ("A B", "x"), ("X:", "x"), ("X", "a\r\nB: c"), ("X", "\0")]
        {
            assert!(header(name, value).unwrap_err().message.starts_with("f.headers"), "{name:?}");
        }
    }
}
