//! The query string: the few plain values that routes take from it.

use percent_encoding::percent_decode_str;

/// The first value of `name` in a query string, decoded.
pub(crate) fn value(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key) == name).then(|| decode(value))
    })
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_name_and_decoded() {
        let query = "user_id=u%31&empty=&flag&text=a+b%2Bc";
        assert_eq!(value(query, "user_id").as_deref(), Some("u1"));
        assert_eq!(value(query, "empty").as_deref(), Some(""));
        assert_eq!(value(query, "flag").as_deref(), Some(""));
        assert_eq!(value(query, "text").as_deref(), Some("a b+c"));
        assert_eq!(value(query, "user"), None);
    }
}
