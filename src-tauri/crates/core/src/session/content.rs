//! Whether the agent takes what a prompt holds.

use crate::{Error, Result, wire::PromptCapabilities};
use serde_json::Value;

/// Text and links are taken by every agent, the rest by those that say so. What is
/// not known here is the agent's to judge.
///
/// # Errors
/// Names the block and what can be done.
pub(super) fn check(content: &[Value], can: Option<PromptCapabilities>) -> Result<()> {
    for (n, block) in content.iter().enumerate() {
        let Some(kind) = block.get("type").and_then(Value::as_str) else {
            return Err(Error::invalid(format!(
                "content[{n}]: a block has a `type`: text, image, audio, resource or resource_link"
            )));
        };
        let Some(can) = can else { continue };
        let (taken, what, instead) = match kind {
            "image" => (can.image, "images", "describe the picture, or link its file"),
            "audio" => (can.audio, "sound", "send it as text, or link its file"),
            "resource" => (can.embedded, "embedded files", "link the file (`resource_link`)"),
            _ => (true, "", ""),
        };
        if !taken {
            return Err(Error::invalid(format!(
                "content[{n}]: the agent takes no {what} in prompts; {instead}, or choose another agent"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_are_refused_by_name() {
        let blocks = [
            json!({"type": "text", "text": "a"}),
            json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
            json!({"type": "hologram"}),
            json!({"type": "image", "mimeType": "image/png", "data": ""}),
        ];
        assert!(check(&blocks, None).is_ok(), "not known yet");
        let none = PromptCapabilities::default();
        let error = check(&blocks, Some(none)).unwrap_err();
        assert!(error.message.starts_with("content[3]: the agent takes no images"), "{error:?}");
        assert!(check(&blocks, Some(PromptCapabilities { image: true, ..none })).is_ok());
        let file = [json!({"type": "resource", "resource": {}})];
        assert!(check(&file, Some(none)).unwrap_err().message.contains("embedded files"));
        assert!(check(&[json!({"text": "a"})], None).is_err());
    }
}
