//! Who may allow a tool call: the session's policy, applied to one request.

use crate::wire::Policy;
use serde_json::Value;

/// The offered option by which the policy allows a call without asking the user.
pub(super) fn allowed_by(policy: Policy, kind: Option<&str>, options: &[Value]) -> Option<String> {
    let allowed = match policy {
        Policy::Ask => false,
        Policy::Reads => matches!(kind, Some("read" | "search" | "think")),
        Policy::All => true,
    };
    if !allowed {
        return None;
    }
    first_of(["allow_once", "allow_always"], options)
}

/// The offered option that says no, for this time rather than for ever.
pub(super) fn rejected_by(options: &[Value]) -> Option<String> {
    first_of(["reject_once", "reject_always"], options)
}

/// The id of the first option of the first of these kinds that is offered.
fn first_of(kinds: [&str; 2], options: &[Value]) -> Option<String> {
    kinds.into_iter().find_map(|wanted| {
        options
            .iter()
            .filter(|option| option.get("kind").and_then(Value::as_str) == Some(wanted))
            .find_map(|option| Some(option.get("optionId")?.as_str()?.to_owned()))
    })
}

/// Whether the agent offered this option.
pub(super) fn is_offered(options: &[Value], option: &str) -> bool {
    options.iter().any(|offered| offered.get("optionId").and_then(Value::as_str) == Some(option))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_policy_decides_by_kind_and_prefers_once() {
        let options = [
            json!({"optionId": "r", "kind": "reject_once"}),
            json!({"optionId": "always", "kind": "allow_always"}),
            json!({"optionId": "once", "kind": "allow_once"}),
        ];
        let by = |policy, kind| allowed_by(policy, kind, &options);
        assert_eq!(by(Policy::Ask, Some("read")), None);
        for kind in ["read", "search", "think"] {
            assert_eq!(by(Policy::Reads, Some(kind)).as_deref(), Some("once"));
        }
        for kind in [Some("edit"), Some("execute"), Some("fetch"), Some("new"), None] {
            assert_eq!(by(Policy::Reads, kind), None);
            assert_eq!(by(Policy::All, kind).as_deref(), Some("once"));
        }
        assert_eq!(allowed_by(Policy::All, None, &options[..2]).as_deref(), Some("always"));
        // Nothing to allow with: the user is asked.
        assert_eq!(allowed_by(Policy::All, None, &options[..1]), None);
        assert!(is_offered(&options, "r") && !is_offered(&options, "R"));
        assert_eq!(rejected_by(&options).as_deref(), Some("r"));
        assert_eq!(rejected_by(&options[1..]), None);
    }
}
