//! What the browser shows at the end of a sign-in. It is read by people of either language, in a
//! browser of theirs, so that it says everything twice.

/// How the sign-in went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    /// Not from the sign-in that was begun.
    Foreign,
}

impl Outcome {
    const fn texts(self) -> [(&'static str, &'static str, &'static str); 2] {
        match self {
            Self::Done => [
                ("en", "Signed in", "You can close this page and go back to Gantry."),
                ("zh", "登录成功", "你可以关闭此页面并返回 Gantry。"),
            ],
            Self::Failed => [
                ("en", "Not signed in", "Gantry says why. Go back to it and try again."),
                ("zh", "登录未完成", "原因见 Gantry，请返回后重试。"),
            ],
            Self::Foreign => [
                (
                    "en",
                    "This is not the sign-in that was begun",
                    "Go back to Gantry and begin anew.",
                ),
                ("zh", "这不是当前的登录请求", "请返回 Gantry 重新开始。"),
            ],
        }
    }

    /// The page. Nothing of the request is in it.
    pub fn html(self) -> String {
        let mut body = String::new();
        for (language, title, text) in self.texts() {
            body +=
                &format!("<section lang=\"{language}\"><h1>{title}</h1><p>{text}</p></section>");
        }
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>Gantry</title><style>body{{font:16px/1.5 \
             system-ui,sans-serif;max-width:32em;margin:15vh auto;padding:0 1em;color-scheme:light \
             dark}}h1{{font-size:1.3em}}</style>{body}</html>"
        )
    }
}
