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
}
