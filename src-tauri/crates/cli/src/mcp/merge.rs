//! Lists of several servers as one.

use gantry_mcp::frame;
use serde_json::{json, value::RawValue};
use std::collections::{HashMap, HashSet};

/// What a server can list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    pub fn of_list_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The notification that says that it changed.
    pub fn changed(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
        }
    }

    /// The member of the result that holds the items.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of an item that names it.
    fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// Whether a name that two servers share is changed. An address is not: it is the same
    /// thing, and the first server's is taken.
    pub fn is_renamed(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }
}

/// A list, and whose its items are.
#[derive(Debug)]
pub struct Table {
    /// The result for the client.
    pub result: String,
    /// By the name that the client sees: server and the name there.
    owners: HashMap<String, (usize, String)>,
}

impl Table {
    /// Puts whose names these are into `listed`, in the place of what was there.
    pub fn note(&self, list: List, listed: &mut HashMap<(List, String), (usize, String)>) {
        let owners = self.owners.iter();
        listed.extend(owners.map(|(name, owner)| ((list, name.clone()), owner.clone())));
    }

    pub fn find(&self, name: &str) -> Option<(usize, &String)> {
        self.owners.get(name).map(|(index, original)| (*index, original))
    }

    /// For templates: the server whose template begins like this address, the longest first.
    pub fn by_prefix(&self, uri: &str) -> Option<usize> {
        let fixed = |template: &str| template.split('{').next().map_or(0, str::len);
        let fits = |template: &&String| {
            uri.as_bytes().starts_with(&template.as_bytes()[..fixed(template)])
        };
        let best = self.owners.keys().filter(fits).max_by_key(|template| fixed(template))?;
        self.owners.get(best).map(|(index, _)| *index)
    }

    /// The server that has all items, when it is one.
    pub fn only_member(&self) -> Option<usize> {
        let mut indices = self.owners.values().map(|(index, _)| *index);
        let first = indices.next()?;
        indices.all(|index| index == first).then_some(first)
    }
}

/// Puts the parts together, in the order of the servers. A name that two of them have
/// becomes `<server>__<name>` for both.
pub fn merge(list: List, servers: &[&str], parts: Vec<Vec<Box<RawValue>>>) -> Table {
    let name_of = |item: &RawValue| frame::field(item.get(), list.key()).and_then(frame::string);
    let changed = if list.is_renamed() {
        let names =
            parts.iter().map(|items| items.iter().filter_map(|item| name_of(item)).collect());
        changed(servers, &names.collect::<Vec<Vec<String>>>())
    } else {
        HashSet::new()
    };
    let mut owners = HashMap::new();
    let mut items = Vec::new();
    for (index, part) in parts.into_iter().enumerate() {
        for item in part {
            let Some(name) = name_of(&item) else { continue };
            let is_changed = changed.contains(&(index, name.clone()));
            let exposed = exposed(servers, index, &name, is_changed);
            if owners.contains_key(&exposed) {
                if list.is_renamed() {
                    let server = servers.get(index);
                    tracing::warn!(server, name, "listed twice; the first one is taken");
                }
                continue;
            }
            items.push(renamed(&item, list.key(), &name, &exposed));
            owners.insert(exposed, (index, name));
        }
    }
    Table { result: format!(r#"{{"{}":[{}]}}"#, list.member(), items.join(",")), owners }
}

/// The name that the client sees.
fn exposed(servers: &[&str], index: usize, name: &str, is_changed: bool) -> String {
    match servers.get(index).filter(|_| is_changed) {
        Some(server) => format!("{server}__{name}"),
        None => name.to_owned(),
    }
}

/// Which names, by server, cannot stay as they are: two servers have them, or another one is
/// to be called so.
fn changed(servers: &[&str], names: &[Vec<String>]) -> HashSet<(usize, String)> {
    let mut changed: HashSet<(usize, String)> = HashSet::new();
    loop {
        let mut takers: HashMap<String, HashSet<(usize, &String)>> = HashMap::new();
        for (index, names) in names.iter().enumerate() {
            for name in names {
                let is_changed = changed.contains(&(index, name.clone()));
                let seen = exposed(servers, index, name, is_changed);
                takers.entry(seen).or_default().insert((index, name));
            }
        }
        let before = changed.len();
        let clashes = takers.into_values().filter(|takers| takers.len() > 1);
        for (index, name) in clashes.flatten() {
            changed.insert((index, name.clone()));
        }
        if changed.len() == before {
            return changed;
        }
    }
}

fn renamed(item: &RawValue, key: &str, name: &str, exposed: &str) -> String {
    let text = item.get();
    let Some(raw) = frame::field(text, key).filter(|_| name != exposed) else {
        return text.to_owned();
    };
    let start = raw.as_ptr() as usize - text.as_ptr() as usize;
    format!("{}{}{}", &text[..start], json!(exposed), &text[start + raw.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(texts: &[&str]) -> Vec<Box<RawValue>> {
        texts.iter().map(|text| RawValue::from_string((*text).to_owned()).expect("JSON")).collect()
    }

    #[test]
    fn a_shared_name_is_changed_for_both_and_nothing_else_is_touched() {
        let a = items(&[r#"{"x":1.0,"name":"echo","d":"name"}"#, r#"{"name":"only-a"}"#]);
        let b = items(&[r#"{ "name" : "echo" }"#, r#"{"no":"name"}"#]);
        let table = merge(List::Tools, &["a", "b"], vec![a, b]);
        assert_eq!(
            table.result,
            r#"{"tools":[{"x":1.0,"name":"a__echo","d":"name"},{"name":"only-a"},{ "name" : "b__echo" }]}"#
        );
        assert_eq!(table.find("b__echo"), Some((1, &"echo".to_owned())));
        assert_eq!(table.find("only-a"), Some((0, &"only-a".to_owned())));
        assert_eq!(table.find("echo"), None);
    }

    #[test]
    fn a_name_that_another_one_would_get_is_changed_too() {
        let a = items(&[r#"{"name":"echo"}"#, r#"{"name":"b__echo"}"#]);
        let b = items(&[r#"{"name":"echo"}"#]);
        let c = items(&[r#"{"name":"a__echo"}"#, r#"{"name":"v"}"#]);
        let table = merge(List::Tools, &["a", "b", "c"], vec![a, b, c]);
        let all = [
            ("a__echo", 0, "echo"),
            ("a__b__echo", 0, "b__echo"),
            ("b__echo", 1, "echo"),
            ("c__a__echo", 2, "a__echo"),
            ("v", 2, "v"),
        ];
        for (seen, index, name) in all {
            assert_eq!(table.find(seen), Some((index, &name.to_owned())), "{seen}");
        }
        assert_eq!(table.owners.len(), all.len());
    }

    #[test]
    fn an_address_that_two_have_is_the_first_ones_and_templates_match_by_their_beginning() {
        let part = || items(&[r#"{"uri":"file:///x"}"#]);
        let table = merge(List::Resources, &["a", "b"], vec![part(), part()]);
        assert_eq!(table.result, r#"{"resources":[{"uri":"file:///x"}]}"#);
        assert_eq!((table.find("file:///x").expect("there").0, table.only_member()), (0, Some(0)));
        let table = merge(
            List::Templates,
            &["a", "b"],
            vec![
                items(&[r#"{"uriTemplate":"t://{id}"}"#]),
                items(&[r#"{"uriTemplate":"t://x/{id}"}"#]),
            ],
        );
        assert_eq!(table.by_prefix("t://x/1"), Some(1));
        assert_eq!(table.by_prefix("t://y"), Some(0));
        assert_eq!(table.by_prefix("u://y"), None);
        assert_eq!(table.only_member(), None);
    }
}
