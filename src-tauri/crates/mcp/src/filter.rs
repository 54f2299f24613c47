//! Which tools of a server a client may see and call.

/// Allow wins over deny; both empty lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// When not empty, only these.
    pub allow: Vec<String>,
    /// Never these.
    pub deny: Vec<String>,
}

impl ToolFilter {
    /// Whether a tool of this name passes.
    pub fn passes(&self, tool: &str) -> bool {
        if self.allow.is_empty() {
            !self.deny.iter().any(|name| name == tool)
        } else {
            self.allow.iter().any(|name| name == tool)
        }
    }
    /// Whether the filter changes nothing.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}
