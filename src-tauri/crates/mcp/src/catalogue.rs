//! What a server has told about itself.

use crate::{ToolFilter, frame};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What was learned from a server in its handshake, kept raw.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The `result` of `initialize`.
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
    /// The pages as they came, for another filter.
    pages: Option<Arc<[Page]>>,
}

impl Known {
    pub fn new(initialize: Box<RawValue>, pages: Option<Arc<[Page]>>, filter: &ToolFilter) -> Self {
        let mut tools = Vec::new();
        let result = pages.as_ref().map(|pages| merge(pages, filter, &mut tools));
        Self { catalogue: Arc::new(Catalogue { initialize, tools }), tools: result, pages }
    }

    /// The same server seen through another filter.
    pub fn refiltered(&self, filter: &ToolFilter) -> Self {
        Self::new(self.catalogue.initialize.clone(), self.pages.clone(), filter)
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
    fn a_capability_of_null_is_none() {
        let initialize = page(r#"{"capabilities":{"tools":{},"prompts":null}}"#);
        assert!(declares(&initialize, "tools"));
        assert!(!declares(&initialize, "prompts"));
        assert!(!declares(&page("[]"), "tools"));
    }
}
