//! What an authorization server knows of another application's entry.

use super::entry::{Read, text};
use crate::wire::{OauthChoice, OauthClient};
use serde_json::{Map, Value};

/// How others write what an authorization server knows of them. A client that is theirs is known
/// with their address to come back to, so that it may have to be registered for Gantry, too.
pub(super) fn sign_in(fields: &mut Map<String, Value>, read: &mut Read) {
    for key in ["oauth", "auth"] {
        match fields.get(key) {
            Some(Value::Bool(allowed)) if key == "oauth" => {
                read.config.oauth = (!allowed).then_some(OauthChoice::Allowed(false));
            }
            Some(Value::Object(_)) => {
                let Some(Value::Object(mut inner)) = fields.remove(key) else { continue };
                let mut one =
                    |names: [&str; 3]| names.iter().find_map(|name| text(&mut inner, name, read));
                let client_id = one(["clientId", "client_id", "CLIENT_ID"]);
                let client_secret = one(["clientSecret", "client_secret", "CLIENT_SECRET"]);
                let scopes = match inner.remove("scopes").or_else(|| inner.remove("scope")) {
                    Some(Value::String(line)) => {
                        line.split_whitespace().map(str::to_owned).collect()
                    }
                    Some(Value::Array(list)) => {
                        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                    }
                    _ => Vec::new(),
                };
                if client_id.is_some() {
                    read.problem(format!(
                        "the client of `{key}` has to know the address http://127.0.0.1/callback \
                         for Gantry, too"
                    ));
                }
                if client_id.is_some() || !scopes.is_empty() {
                    let other = Map::new();
                    read.config.oauth = Some(OauthChoice::With(OauthClient {
                        client_id,
                        client_secret,
                        scopes,
                        redirect_port: None,
                        other,
                    }));
                }
                continue;
            }
            _ => continue,
        }
        fields.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::read;
    use serde_json::{Value, json};

    fn of(key: &str, value: Value) -> (Value, Vec<String>) {
        let read = read(&json!({ "url": "https://h", key: value }), None);
        (serde_json::to_value(&read.config).expect("a value")["oauth"].clone(), read.problems)
    }

    #[test]
    fn clients_of_every_form_are_taken_over() {
        let wanted = json!({ "clientId": "c", "clientSecret": "s", "scopes": ["a", "b"] });
        for (key, value) in [
            ("oauth", json!({ "clientId": "c", "clientSecret": "s", "scope": "a b" })),
            ("oauth", json!({ "client_id": "c", "client_secret": "s", "scopes": ["a", "b"] })),
            ("auth", json!({ "CLIENT_ID": "c", "CLIENT_SECRET": "s", "scopes": ["a", "b"] })),
        ] {
            let (oauth, problems) = of(key, value);
            assert_eq!(oauth, wanted);
            assert!(problems.iter().any(|text| text.contains("/callback")), "{problems:?}");
        }
        assert_eq!(of("oauth", json!({})), (Value::Null, vec![]));
        assert_eq!(of("oauth", json!(false)).0, json!(false));
        assert_eq!(of("oauth", json!(true)), (Value::Null, vec![]));
    }
}
