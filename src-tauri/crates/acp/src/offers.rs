//! What we do for an agent when it asks: files, terminals, questions to the user.

use crate::call::ELICIT;
use serde_json::{Value, json};

/// The client capabilities that an agent is told of in `initialize`. What is not offered
/// is refused with "method not found". Nothing is offered by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// `fs/read_text_file`.
    pub read_files: bool,
    /// `fs/write_text_file`.
    pub write_files: bool,
    /// `terminal/create` and its relatives.
    pub terminals: bool,
    /// `elicitation/create`: a form to fill in, or a page to open.
    pub questions: bool,
}

impl Offers {
    /// `clientCapabilities` of `initialize`. A sign-in in a terminal is always shown.
    pub(crate) fn capabilities(self) -> Value {
        let mut all = json!({
            "fs": { "readTextFile": self.read_files, "writeTextFile": self.write_files },
            "terminal": self.terminals,
            "auth": { "terminal": true },
        });
        if self.questions {
            all["elicitation"] = json!({ "form": {}, "url": {} });
        }
        all
    }

    /// Whether a request of the agent is one of what is offered.
    pub(crate) fn covers(self, method: &str) -> bool {
        match method {
            "fs/read_text_file" => self.read_files,
            "fs/write_text_file" => self.write_files,
            ELICIT => self.questions,
            other => self.terminals && other.starts_with("terminal/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_offered_is_advertised_and_taken() {
        let none = Offers::default().capabilities();
        assert_eq!(none["fs"], json!({"readTextFile": false, "writeTextFile": false}));
        assert!(none["terminal"] == false && none.get("elicitation").is_none());
        let some = Offers { read_files: true, terminals: true, ..Offers::default() };
        assert_eq!(some.capabilities()["fs"]["readTextFile"], true);
        assert!(some.covers("fs/read_text_file") && some.covers("terminal/wait_for_exit"));
        assert!(!some.covers("fs/write_text_file") && !some.covers("elicitation/create"));
        assert!(!some.covers("session/request_permission"));
    }
}
