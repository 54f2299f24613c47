//! The reference as a page.

use super::{Command, document::REFUSALS};
use std::fmt::Write as _;

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width\"><title>Gantry: commands</title><style>\
    :root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;\
    margin:2rem auto;padding:0 1rem}code,pre{font:13px/1.5 ui-monospace,monospace}\
    pre{overflow:auto;padding:1rem;border:1px solid #8886;border-radius:.5rem}\
    h3{margin:2rem 0 .25rem}td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0}p{margin:.25rem 0}nav{columns:14rem}nav a{display:block}</style></head>\
    <body><h1>Commands</h1><p><code>POST /api/{command}</code> with JSON and \
    <code>Authorization: Bearer &lt;token&gt;</code>; the answer is \
    <code>{\"ok\":true,\"data\":…}</code> or <code>{\"ok\":false,\"error\":{\"code\",\"message\",\
    \"detail\"}}</code>. <code>GET /api</code> gives the same as JSON Schema, \
    <code>GET /api/openapi.json</code> as an OpenAPI document.</p>";

/// The whole page.
pub(super) fn page(commands: impl Iterator<Item = Command>, types: &str) -> String {
    let commands: Vec<Command> = commands.collect();
    let mut page = String::from(HEAD);
    page.push_str("<nav>");
    for command in &commands {
        let _ = write!(page, "<a href=\"#{0}\"><code>{0}</code></a>", command.name);
    }
    page.push_str("</nav>");
    for command in &commands {
        let _ = write!(
            page,
            "<h3 id=\"{0}\"><code>{0}</code></h3><p>{1}</p><p><code>{2}</code> → <code>{3}</code></p>",
            command.name,
            text(command.about),
            text(&command.input),
            text(&command.output)
        );
    }
    page.push_str("<h2>Errors</h2><table><tr><th>Status<th>Code<th>Means</tr>");
    for (status, code, means) in REFUSALS {
        let _ = write!(page, "<tr><td>{status}<td><code>{code}</code><td>{}</tr>", text(means));
    }
    page.push_str("</table>");
    let declarations = types.split("export interface Commands").next().unwrap_or_default();
    // Its long lines scroll, also by the keyboard.
    let _ = write!(
        page,
        "<h2 id=\"types\">Types</h2><pre tabindex=\"0\" role=\"region\" aria-labelledby=\"types\">{}</pre></body></html>",
        text(declarations.trim())
    );
    page
}

fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
