//! The few texts of the shell itself: tray and notifications.

use gantry_core::{app::App, wire::Language};

/// In which language the shell speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// English.
    En,
    /// Chinese (simplified).
    Zh,
}

impl Words {
    /// What the user chose, else what the system says.
    pub fn of(app: &App) -> Self {
        match app.settings().borrow().language {
            Language::En => Self::En,
            Language::Zh => Self::Zh,
            Language::System => {
                let said = ["LC_ALL", "LC_MESSAGES", "LANG"];
                let said = said.into_iter().filter_map(|name| std::env::var(name).ok());
                Self::of_locale(said.into_iter().find(|text| !text.is_empty()).as_deref())
            }
        }
    }

    fn of_locale(locale: Option<&str>) -> Self {
        match locale {
            Some(locale) if locale.to_lowercase().starts_with("zh") => Self::Zh,
            _ => Self::En,
        }
    }

    fn pick(self, en: &'static str, zh: &'static str) -> &'static str {
        match self {
            Self::En => en,
            Self::Zh => zh,
        }
    }

    pub fn show(self) -> &'static str {
        self.pick("Show Gantry", "显示 Gantry")
    }
    pub fn new_session(self) -> &'static str {
        self.pick("New session", "新建会话")
    }
    pub fn open(self) -> &'static str {
        self.pick("Open", "打开")
    }
    pub fn stop(self) -> &'static str {
        self.pick("Stop", "停止")
    }
    pub fn stop_all(self) -> &'static str {
        self.pick("Stop all sessions", "停止所有会话")
    }
    pub fn quit(self) -> &'static str {
        self.pick("Quit", "退出")
    }
    pub fn quit_now(self) -> &'static str {
        self.pick("Quit now", "立即退出")
    }

    pub fn closing(self) -> &'static str {
        self.pick("Gantry is closing…", "Gantry 正在退出…")
    }
    pub fn stopping(self, title: &str) -> String {
        format!("{}: {title}", self.pick("Stopping", "正在停止"))
    }
    pub fn untitled(self) -> &'static str {
        self.pick("New conversation", "新对话")
    }
    pub fn finished(self) -> &'static str {
        self.pick("The agent has finished", "智能体已完成")
    }
    pub fn failed(self) -> &'static str {
        self.pick("The turn failed", "本轮失败")
    }
    pub fn asks(self) -> &'static str {
        self.pick("The agent asks for permission", "智能体请求许可")
    }
    pub fn show_it(self) -> &'static str {
        self.pick("Open", "打开")
    }
}
