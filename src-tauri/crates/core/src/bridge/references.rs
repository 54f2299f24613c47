//! `${env:NAME}` and `${secret:ID}` in a configuration (contract, section 4).

use crate::{session::is_secret, wire::ServerConfig};
use std::collections::BTreeMap;

/// Where a name's value comes from.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The configuration with every reference filled in.
///
/// # Errors
/// The field and the name that has no value; nothing literal is ever sent as a credential. A
/// secret among the arguments, which everybody on the computer can read.
pub(super) fn resolved(config: &ServerConfig, lookup: Lookup) -> Result<ServerConfig, String> {
    let mut full = config.clone();
    fill(&mut full.env, "env", lookup)?;
    fill(&mut full.headers, "headers", lookup)?;
    let places = [("command", &mut full.command), ("cwd", &mut full.cwd), ("url", &mut full.url)];
    for (field, place) in places {
        if let Some(text) = place {
            *text = filled(text, field, lookup)?;
        }
    }
    for (number, argument) in full.args.iter_mut().enumerate() {
        let field = format!("args[{number}]");
        let open = |name: &str| if is_secret(name) { None } else { lookup(name) };
        *argument = filled(argument, &field, &open).map_err(|why| match named_secret(argument) {
            Some(name) => format!(
                "{field} refers to ${{env:{name}}}, and everybody on this computer can read the \
                 arguments of a program; give it to the server in `env` instead"
            ),
            None => why,
        })?;
    }
    if let Some(token) = &mut full.auth_token {
        *token = filled(token, "authToken", lookup)?;
    }
    if let Some(secret) = full.client_secret_mut() {
        *secret = filled(secret, "oauth.clientSecret", lookup)?;
    }
    Ok(full)
}

/// The first variable in a text whose name says that it is a secret.
fn named_secret(text: &str) -> Option<&str> {
    let names = text.split("${env:").skip(1).filter_map(|rest| rest.split_once('}'));
    names.map(|(name, _)| name).find(|name| is_secret(name))
}

fn fill(values: &mut BTreeMap<String, String>, of: &str, lookup: Lookup) -> Result<(), String> {
    for (key, value) in values {
        *value = filled(value, &format!("{of}.{key}"), lookup)?;
    }
    Ok(())
}

fn filled(text: &str, field: &str, lookup: Lookup) -> Result<String, String> {
    let mut full = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        full.push_str(before);
        let Some(end) = reference.find('}') else {
            full.push_str(reference);
            return Ok(full);
        };
        let inside = &reference[2..end];
        if let Some(name) = inside.strip_prefix("env:") {
            full.push_str(&lookup(name).ok_or_else(|| {
                format!(
                    "{field} refers to ${{env:{name}}}, but {name} is not set in Gantry's \
                     environment; set it and start Gantry again, or change {field}"
                )
            })?);
        } else if let Some(id) = inside.strip_prefix("secret:") {
            return Err(format!(
                "{field} refers to ${{secret:{id}}}, but there is no secret `{id}`: this version \
                 has no keychain yet; use ${{env:NAME}} or a literal value"
            ));
        } else {
            // Not ours: a server may have a notation of its own.
            full.push_str(&reference[..=end]);
        }
        rest = &reference[end + 1..];
    }
    full.push_str(rest);
    Ok(full)
}

/// From the environment that children get (the login shell's where that was taken over), else ours.
pub(super) fn from_environment(name: &str) -> Option<String> {
    gantry_supervisor::environment::for_children()
        .into_iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
        .or_else(|| std::env::var_os(name))
        .and_then(|value| value.into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "t0k".to_owned())
    }

    fn config(text: &str) -> ServerConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn fills_in_what_is_set() {
        let full = resolved(
            &config(
                r#"{"command":"x","env":{"A":"${env:TOKEN}","B":"a${env:TOKEN}b${env:TOKEN}",
                    "C":"${HOME} ${x","D":"$"},"headers":{"H":"Bearer ${env:TOKEN}"},
                    "authToken":"${env:TOKEN}"}"#,
            ),
            &lookup,
        )
        .unwrap();
        assert_eq!(full.env["A"], "t0k");
        assert_eq!(full.env["B"], "at0kbt0k");
        assert_eq!(full.env["C"], "${HOME} ${x");
        assert_eq!(full.env["D"], "$");
        assert_eq!(full.headers["H"], "Bearer t0k");
        assert_eq!(full.auth_token.as_deref(), Some("t0k"));
    }

    #[test]
    fn places_are_filled_in_and_secrets_do_not_become_arguments() {
        let lookup = |name: &str| Some(format!("of-{name}"));
        let full = resolved(
            &config(
                r#"{"command":"${env:BIN}/x","cwd":"${env:DIR}","args":["a","--in=${env:DIR}/b"]}"#,
            ),
            &lookup,
        )
        .unwrap();
        assert_eq!(full.command.as_deref(), Some("of-BIN/x"));
        assert_eq!((full.cwd.as_deref(), &*full.args[1]), (Some("of-DIR"), "--in=of-DIR/b"));
        let url = resolved(&config(r#"{"url":"https://h/${env:KEY}"}"#), &lookup).unwrap().url;
        assert_eq!(url.as_deref(), Some("https://h/of-KEY"));
        let refused = resolved(&config(r#"{"args":["--token","${env:MY_TOKEN}"]}"#), &lookup);
        let refused = refused.unwrap_err();
        assert!(refused.contains("args[1]") && refused.contains("`env`"), "{refused}");
    }

    #[test]
    fn names_field_and_variable_of_what_is_not() {
        for (text, field, name) in [
            (r#"{"args":["${env:DIR}"]}"#, "args[0]", "DIR"),
            (r#"{"env":{"KEY":"${env:MISSING}"}}"#, "env.KEY", "MISSING"),
            (
                r#"{"headers":{"Authorization":"Bearer ${env:NOPE}"}}"#,
                "headers.Authorization",
                "NOPE",
            ),
            (r#"{"authToken":"${secret:docs}"}"#, "authToken", "docs"),
        ] {
            let error = resolved(&config(text), &lookup).unwrap_err();
            assert!(error.contains(field) && error.contains(name), "{error}");
        }
    }
}
