//! `gantry import`: MCP servers of other applications.

use crate::{
    arguments::Place,
    failure::Failure,
    host::Host,
    interrupts::Interrupts,
    terminal::{complain, plain, quoted, say},
};
use clap::Args;
use gantry_core::{
    import::OtherApp,
    wire::{FoundServer, ServersFound, ServersImported},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{io::Read as _, path::PathBuf};

/// Options of `gantry import`.
#[derive(Debug, Args)]
#[command(after_help = "Without --apply nothing is saved: the list shows what was found, what is \
    wrong with it, and what is there already. What is saved is disabled until you enable it.")]
pub struct Import {
    #[command(flatten)]
    place: Place,
    /// An application (claude-desktop, claude-code, cursor) or a file
    #[arg(long, value_name = "APP|FILE", conflicts_with = "file")]
    from: Option<String>,
    /// A file with servers as other applications write them; `-` for standard input
    file: Option<PathBuf>,
    /// Save what was found and is not there yet, disabled
    #[arg(long)]
    apply: bool,
    /// With --apply: only these servers
    #[arg(long, value_name = "NAME", requires = "apply")]
    only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Finds, shows, and saves if asked to.
pub async fn run(options: Import) -> Result<u8, Failure> {
    let sources = sources(&options)?;
    let mut interrupts = Interrupts::take().map_err(|error| Failure::new("import", error))?;
    let host = Host::find_or_start("import", &options.place).await?;
    let done = import(&host, &options, sources).await;
    let code = host.close(&mut interrupts).await;
    done.map(|done| done.max(code))
}

/// The inputs of `servers_import`, and whether each was asked for by name.
fn sources(options: &Import) -> Result<Vec<(Value, bool)>, Failure> {
    let named = options.file.clone().or_else(|| options.from.clone().map(PathBuf::from));
    let Some(named) = named else {
        // Whatever is installed.
        return Ok(OtherApp::ALL.iter().map(|app| (json!({ "app": app.id() }), false)).collect());
    };
    let text = named.to_string_lossy();
    if options.file.is_none() && OtherApp::named(&text).is_some() && !named.is_file() {
        return Ok(vec![(json!({ "app": text }), true)]);
    }
    if text == "-" {
        let mut pasted = String::new();
        std::io::stdin()
            .lock()
            .read_to_string(&mut pasted)
            .map_err(|error| Failure::usage("import: standard input", error))?;
        return Ok(vec![(json!({ "text": pasted }), true)]);
    }
    let path = std::path::absolute(&named).unwrap_or(named);
    Ok(vec![(json!({ "path": path }), true)])
}

async fn import(host: &Host, options: &Import, sources: Vec<(Value, bool)>) -> Result<u8, Failure> {
    let mut all = Vec::new();
    let mut answers = Vec::new();
    let mut broken = 0;
    for (source, is_named) in sources {
        let found = match host.remote.call("servers_import", source.clone()).await {
            Ok(found) => read::<ServersFound>(found)?.found,
            Err(failure) if is_named => return Err(failure),
            Err(failure) if failure.is_absent() => continue,
            // One that is broken does not hide the others.
            Err(failure) => {
                complain(&format!("{}; left out", failure.sentence()));
                broken += 1;
                continue;
            }
        };
        if options.apply {
            let mut input = source;
            input["names"] = json!(chosen(&found, &options.only));
            let answer = host.remote.call("servers_import_apply", input).await?;
            answers.push(read::<ServersImported>(answer)?);
        }
        all.extend(found);
    }
    let missing = options.only.iter().find(|name| all.iter().all(|found| found.name != **name));
    if let Some(missing) = missing {
        return Err(Failure::absent("import", format!("no server `{missing}` was found")));
    }
    let code = u8::from(all.is_empty() && broken > 0);
    if options.json {
        let saved: Vec<_> = answers.iter().flat_map(|answer| &answer.saved).collect();
        let skipped: Vec<_> = answers.iter().flat_map(|answer| &answer.skipped).collect();
        say(&match options.apply {
            true => json!({ "found": all, "saved": saved, "skipped": skipped }).to_string(),
            false => json!({ "found": all }).to_string(),
        });
        return Ok(code);
    }
    if all.is_empty() {
        say("no MCP server of another application was found");
    }
    for found in &all {
        say(&plain(&line(found)));
    }
    for answer in &answers {
        for server in &answer.saved {
            say(&format!("saved {} (disabled; enable it in the application)", server.name));
        }
        for skipped in &answer.skipped {
            say(&format!("left out {}: {}", skipped.name, skipped.why));
        }
    }
    if !options.apply && all.iter().any(|found| !found.refused && found.duplicate_of.is_none()) {
        say("nothing was saved; --apply saves them, disabled");
    }
    Ok(code)
}

/// What is saved: what was asked for, else everything that is new and can be used.
fn chosen<'a>(found: &'a [FoundServer], only: &[String]) -> Vec<&'a str> {
    found
        .iter()
        .filter(|found| match only {
            [] => !found.refused && found.duplicate_of.is_none(),
            only => only.contains(&found.name),
        })
        .map(|found| found.name.as_str())
        .collect()
}

fn line(found: &FoundServer) -> String {
    let config = &found.config;
    let what = match (&config.command, &config.url) {
        (Some(command), _) => {
            let words = std::iter::once(command).chain(&config.args);
            words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
        (None, Some(url)) => url.clone(),
        (None, None) => "-".to_owned(),
    };
    let mut line = format!("{}  {what}", found.name);
    if !found.source.is_empty() {
        line.push_str(&format!("\n    from {}", found.source));
    }
    if let Some(same) = &found.duplicate_of {
        line.push_str(&format!("\n    there already as `{same}`"));
    }
    for problem in &found.problems {
        let word = if found.refused { "refused" } else { "note" };
        line.push_str(&format!("\n    {word}: {problem}"));
    }
    line
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::new("import", format!("the running Gantry is of another version: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, refused: bool, same: Option<&str>) -> FoundServer {
        FoundServer {
            name: name.into(),
            config: serde_json::from_value(json!({"command": "npx", "args": ["-y", "a b"]}))
                .unwrap(),
            source: "/x/mcp.json".into(),
            problems: vec!["odd".into()],
            duplicate_of: same.map(str::to_owned),
            refused,
        }
    }

    #[test]
    fn only_what_is_new_and_usable_is_saved_unless_named() {
        let all = [found("a", false, None), found("b", true, None), found("c", false, Some("x"))];
        assert_eq!(chosen(&all, &[]), ["a"]);
        assert_eq!(chosen(&all, &["c".into()]), ["c"]);
    }

    #[test]
    fn a_line_shows_the_whole_command() {
        assert_eq!(
            line(&found("c", false, Some("x"))),
            "c  npx -y \"a b\"\n    from /x/mcp.json\n    there already as `x`\n    note: odd"
        );
    }
}
