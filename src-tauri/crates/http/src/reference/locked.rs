//! The reference in a browser, which sends no `Authorization` by itself: a page
//! that holds nothing but the few lines that fetch the reference with the token
//! of this tab, of its address, or of a person who types it.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};

/// `__` stands for a word that nobody can know before.
const PAGE: &str = r#"<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Gantry: commands</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}</style></head>
<body><h1>Commands</h1><p id="note" role="status"></p>
<form id="ask" hidden><label>Access token <input id="token" type="password" autocomplete="off" required></label> <button>Open</button>
<p>It is in <code>run/token</code> of the data directory.</p></form>
<script nonce="__">
const note = document.getElementById('note'), ask = document.getElementById('ask');
const address = new URL(location.href), given = address.searchParams.get('token');
if (given !== null) {
  sessionStorage.setItem('gantry.token', given.trim());
  address.searchParams.delete('token');
  history.replaceState(null, '', address);
}
async function show(token) {
  const answer = await fetch('/api/docs', { headers: { authorization: 'Bearer ' + token } });
  if (!answer.ok) return false;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  document.head.replaceChildren(...page.head.childNodes);
  document.body.replaceChildren(...page.body.childNodes);
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
  return true;
}
async function open(token) {
  note.textContent = '';
  try {
    if (token && (await show(token))) return sessionStorage.setItem('gantry.token', token);
    if (token) note.textContent = 'The token was not accepted.';
  } catch {
    note.textContent = 'Gantry does not answer.';
  }
  ask.hidden = false;
  document.getElementById('token').focus();
}
ask.addEventListener('submit', (event) => {
  event.preventDefault();
  open(document.getElementById('token').value.trim());
});
open(sessionStorage.getItem('gantry.token'));
</script></body></html>
"#;

/// Whether a refused request is a browser's that wants to show the reference.
pub(crate) fn asks_for_a_page(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    *method == Method::GET
        && path == "/api/docs"
        && accepts.flat_map(|value| value.split(',')).any(|kind| kind.starts_with("text/html"))
}

/// The page, as a refusal: it has nothing that needs a token.
pub(crate) fn locked() -> Response {
    let mut bytes = [0_u8; 16];
    // Without randomness its script does not run, and the note in it is all that is missing.
    let _ = getrandom::fill(&mut bytes);
    let nonce: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = Response::new(Body::from(PAGE.replace("__", &nonce)));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::WWW_AUTHENTICATE, crate::gate::CHALLENGE),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browser_that_wants_the_reference_gets_the_page() {
        let asks = |method: Method, path: &str, accept: &str| {
            let value = HeaderValue::from_str(accept).unwrap();
            asks_for_a_page(&method, path, &HeaderMap::from_iter([(header::ACCEPT, value)]))
        };
        let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
        assert!(asks(Method::GET, "/api/docs", browser));
        assert!(!asks(Method::GET, "/api/docs", "*/*"));
        assert!(!asks(Method::POST, "/api/docs", browser));
        assert!(!asks(Method::GET, "/metrics", browser));
    }

    #[test]
    fn its_script_runs_by_a_word_of_this_answer_alone() {
        let policy = |response: &Response| {
            let value = response.headers()[header::CONTENT_SECURITY_POLICY].to_str();
            value.unwrap().to_owned()
        };
        let (one, other) = (locked(), locked());
        assert_eq!(one.status(), StatusCode::UNAUTHORIZED);
        assert!(policy(&one).contains("script-src 'nonce-"));
        assert_ne!(policy(&one), policy(&other));
        assert_eq!(PAGE.matches("__").count(), 1);
    }
}
