//! Making a conversation shorter, when the model cannot take all of it. Pure.

use serde_json::{Value, json};

/// What stands in the place of a tool's result that was left out.
const LEFT_OUT: &str =
    "(left out: the conversation became too long; call the tool again if needed)";

/// Leaves out the older half of the tools' results, one at least, and says how many
/// that were; 0 when nothing can be left out any more. What people and the model said
/// stays, and so does every call, which endpoints want answered.
pub(super) fn shorten(messages: &mut [Value]) -> usize {
    let is_whole = |message: &&mut Value| {
        message["role"] == "tool"
            && message["content"].as_str().is_some_and(|content| content.len() > LEFT_OUT.len())
    };
    let whole: Vec<&mut Value> = messages.iter_mut().filter(is_whole).collect();
    let count = whole.len().div_ceil(2);
    for message in whole.into_iter().take(count) {
        message["content"] = json!(LEFT_OUT);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_results_go_first_and_nothing_else_does() {
        let result = |n: usize| json!({"role": "tool", "content": n.to_string().repeat(500)});
        let said = json!({"role": "user", "content": "x".repeat(500)});
        let mut messages = vec![said.clone(), result(1), result(2), said.clone(), result(3)];
        let whole = |messages: &[Value]| -> Vec<usize> {
            let is_whole = |m: &Value| m["content"].as_str().unwrap().len() == 500;
            (0..messages.len()).filter(|at| is_whole(&messages[*at])).collect()
        };
        assert_eq!(shorten(&mut messages), 2);
        assert_eq!(whole(&messages), [0, 3, 4]);
        assert_eq!(shorten(&mut messages), 1);
        assert_eq!(shorten(&mut messages), 0);
        assert_eq!(whole(&messages), [0, 3]);
        assert_eq!(messages.len(), 5);
    }

    #[test]
    fn a_result_that_would_not_become_shorter_stays() {
        assert_eq!(shorten(&mut [json!({"role": "tool", "content": "ok"})]), 0);
    }
}
