//! What a server has told about itself.

use crate::{
    ToolFilter, frame,
    headers::{self, Mirrored},
};
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc};

/// What was learned from a server in its handshake, kept raw.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The `result` of `initialize`; of a server that knows no `initialize`, made of what it
    /// said to `server/discover`.
    pub initialize: Box<RawValue>,
    /// Every tool of every page of `tools/list`, as the server wrote it, the filter applied.
    pub tools: Vec<Box<RawValue>>,
}

/// One page of `tools/list`, as the server wrote it.
pub(crate) type Page = Box<RawValue>;

/// The catalogue and what is answered from it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub catalogue: Arc<Catalogue>,
    /// The `result` for `tools/list`; `None` when the server has no tools at all, so that it
    /// answers for itself.
    pub tools: Option<Arc<str>>,
    /// The `result` of `server/discover`, of a server that answers it.
    pub discover: Option<Box<RawValue>>,
    /// Of tools that have some: the parameters that go into headers.
    pub mirrored: Arc<HashMap<String, Arc<[Mirrored]>>>,
    /// The pages as they came, for another filter.
    pages: Option<Arc<[Page]>>,
}

impl Known {
    pub fn new(initialize: Box<RawValue>, pages: Option<Arc<[Page]>>, filter: &ToolFilter) -> Self {
        let mut tools = Vec::new();
        let result = pages.as_ref().map(|pages| merge(pages, filter, &mut tools));
        let mirrored = tools.iter().filter_map(|tool| {
            let found = headers::mirrored(tool);
            let name = || frame::field(tool.get(), "name").and_then(frame::string);
            if found.is_empty() { None } else { Some((name()?, found.into())) }
        });
        let mirrored = Arc::new(mirrored.collect());
        let catalogue = Arc::new(Catalogue { initialize, tools });
        Self { catalogue, tools: result, discover: None, mirrored, pages }
    }

    /// The same server with other tools.
    pub fn relisted(&self, pages: Arc<[Page]>, filter: &ToolFilter) -> Self {
        let new = Self::new(self.catalogue.initialize.clone(), Some(pages), filter);
        Self { discover: self.discover.clone(), ..new }
    }

    /// The same server seen through another filter.
    pub fn refiltered(&self, filter: &ToolFilter) -> Self {
        let new = Self::new(self.catalogue.initialize.clone(), self.pages.clone(), filter);
        Self { discover: self.discover.clone(), ..new }
    }

    /// Who the server says it is, raw.
    pub fn server_info(&self) -> Option<&str> {
        frame::field(self.catalogue.initialize.get(), "serverInfo")
    }

    /// Whether the server declared that its resources can be subscribed to.
    pub fn has_subscriptions(&self) -> bool {
        frame::field(self.catalogue.initialize.get(), "capabilities")
            .and_then(|capabilities| frame::field(capabilities, "resources"))
            .and_then(|resources| frame::field(resources, "subscribe"))
            == Some("true")
    }

    /// Whether the server declared this capability.
    pub fn declares(&self, capability: &str) -> bool {
        declares(&self.catalogue.initialize, capability)
    }
}

/// Whether an `initialize` result declares a capability.
pub(crate) fn declares(initialize: &RawValue, capability: &str) -> bool {
    frame::field(initialize.get(), "capabilities")
        .is_some_and(|capabilities| frame::field(capabilities, capability).is_some())
}

/// Why a page of `tools/list` cannot be used: a server whose tools cannot be named is not ready.
pub(crate) fn fault(page: &Page) -> Option<String> {
    let Some(listed) = frame::field(page.get(), "tools") else {
        return Some("it has no `tools`".to_owned());
    };
    let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(listed) else {
        return Some("`tools` is not a list".to_owned());
    };
    let is_named = |tool: &&RawValue| {
        frame::field(tool.get(), "name")
            .and_then(frame::string)
            .is_some_and(|name| !name.is_empty())
    };
    let nameless = tools.iter().position(|tool| !is_named(tool))?;
    Some(format!("the tool at position {} has no name", nameless + 1))
}

/// The result for clients. One unfiltered page stays byte for byte; otherwise the
/// first page's other members are kept and `tools` is put together.
fn merge(pages: &[Page], filter: &ToolFilter, tools: &mut Vec<Box<RawValue>>) -> Arc<str> {
    for page in pages {
        let listed = frame::field(page.get(), "tools");
        let listed: Vec<Box<RawValue>> =
            listed.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        tools.extend(listed.into_iter().filter(|tool| {
            let name = || frame::field(tool.get(), "name").and_then(frame::string);
            filter.is_open() || name().is_some_and(|name| filter.passes(&name))
        }));
    }
    if let [page] = pages
        && filter.is_open()
        && frame::field(page.get(), "nextCursor").is_none()
        && frame::field(page.get(), "tools").is_some()
    {
        return page.get().into();
    }
    let first = pages.first().and_then(|page| frame::fields(page.get())).unwrap_or_default();
    let list: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
    let mut result = format!(r#"{{"tools":[{}]"#, list.join(","));
    for (name, value) in first {
        if name != "tools" && name != "nextCursor" {
            result.push(',');
            result.push_str(&serde_json::Value::from(&*name).to_string());
            result.push(':');
            result.push_str(value.get());
        }
    }
    result.push('}');
    result.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    #[test]
    fn one_open_page_stays_as_it_is() {
        let text = r#"{ "tools" : [ {"name":"a","x":1.0} ], "_meta":{"k":[]} }"#;
        let known = Known::new(page("{}"), Some([page(text)].into()), &ToolFilter::default());
        assert_eq!(known.tools.as_deref(), Some(text));
        assert_eq!(known.catalogue.tools.len(), 1);
    }

    #[test]
    fn pages_are_joined_and_filtered_with_their_raw_tools() {
        let pages = [
            page(r#"{"ttlMs":5,"nextCursor":"2","tools":[{"name":"a","n":1.50},{"name":"b"}]}"#),
            page(r#"{"tools":[{"name":"c","u":"\u0061"}]}"#),
        ];
        let filter = ToolFilter { allow: vec![], deny: vec!["b".into()] };
        let known = Known::new(page("{}"), Some(pages.into()), &filter);
        assert_eq!(
            known.tools.as_deref(),
            Some(r#"{"tools":[{"name":"a","n":1.50},{"name":"c","u":"\u0061"}],"ttlMs":5}"#)
        );
    }

    #[test]
    fn a_page_without_tools_or_with_a_nameless_one_is_at_fault() {
        for (text, wrong) in [
            (r#"{"tools":[]}"#, false),
            (r#"{"tools":[{"name":"a"},{"name":"b","x":[]}]}"#, false),
            ("{}", true),
            (r#"{"tools":null}"#, true),
            (r#"{"tools":{"name":"a"}}"#, true),
            (r#"{"tools":"none"}"#, true),
            (r#"{"tools":[{"name":"a"},{"title":"b"}]}"#, true),
            (r#"{"tools":[{"name":7}]}"#, true),
            (r#"{"tools":[{"name":""}]}"#, true),
            (r#"{"tools":["a"]}"#, true),
        ] {
            assert_eq!(fault(&page(text)).is_some(), wrong, "{text}");
        }
        let second = fault(&page(r#"{"tools":[{"name":"a"},{}]}"#)).expect("at fault");
        assert!(second.contains("position 2"), "{second}");
    }

    #[test]
    fn a_capability_of_null_is_none() {
        let initialize = page(r#"{"capabilities":{"tools":{},"prompts":null}}"#);
        assert!(declares(&initialize, "tools"));
        assert!(!declares(&initialize, "prompts"));
        assert!(!declares(&page("[]"), "tools"));
    }
}
