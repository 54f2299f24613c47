//! The tray over D-Bus: the menu that the program exports, and a host for it.

use crate::wait_until;
use std::{collections::HashMap, time::Duration};
use zbus::{
    Connection, fdo,
    zvariant::{OwnedValue, Structure, Value},
};

const PATH: &str = "/org/ayatana/NotificationItem/tray_icon_tray_app_main/Menu";
const MENU: &str = "com.canonical.dbusmenu";
/// How long a connection may take to say whether it has a menu; it is asked again.
const ANSWER: Duration = Duration::from_secs(1);

type Layout = (u32, (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>));

/// The tray menu of a program.
pub struct TrayMenu {
    bus: Connection,
    owner: String,
}

impl TrayMenu {
    /// Finds the menu of this process.
    ///
    /// # Panics
    /// When there is no session bus, or no menu within 10 s.
    pub async fn of(pid: u32) -> Self {
        let bus = Connection::session().await.unwrap_or_else(|why| panic!("no session bus: {why}"));
        let owner = wait_until("the tray menu", Duration::from_secs(10), async || {
            let names = fdo::DBusProxy::new(&bus).await.ok()?;
            for name in names.list_names().await.ok()? {
                let is_unique = name.starts_with(':');
                let owner = names.get_connection_unix_process_id(name.inner().clone()).await;
                if !is_unique || owner.ok() != Some(pid) {
                    continue;
                }
                // A program has several connections; one that serves nothing never answers.
                let layout = tokio::time::timeout(ANSWER, layout(&bus, name.as_str())).await;
                if layout.is_ok_and(|layout| layout.is_some()) {
                    return Some(name.to_string());
                }
            }
            None
        });
        let owner = owner.await;
        Self { bus, owner }
    }

    /// The labels.
    ///
    /// # Panics
    /// When the program does not answer.
    pub async fn labels(&self) -> Vec<String> {
        self.entries().await.into_iter().map(|(_, label)| label).collect()
    }

    /// Clicks the entry whose label begins so. The menu is built anew when the sessions
    /// change, and an entry of the former one is refused: it is looked for again, as a panel does.
    ///
    /// # Panics
    /// When there is none.
    pub async fn click(&self, label: &str) {
        wait_until("the click is taken", Duration::from_secs(10), async || {
            let entries = self.entries().await;
            let (id, _) = entries.iter().find(|(_, found)| found.starts_with(label))?;
            let event = (*id, "clicked", Value::from(""), 0_u32);
            let clicked = self
                .bus
                .call_method(Some(self.owner.as_str()), PATH, Some(MENU), "Event", &event)
                .await;
            clicked.ok().map(drop)
        })
        .await;
    }

    async fn entries(&self) -> Vec<(i32, String)> {
        let layout = layout(&self.bus, &self.owner).await;
        let (_, (_, _, children)) = layout.unwrap_or_else(|| panic!("the menu is gone"));
        let mut found = Vec::new();
        children.iter().for_each(|child| entries_below(child, &mut found));
        found
    }
}

async fn layout(bus: &Connection, owner: &str) -> Option<Layout> {
    let all = (0_i32, -1_i32, vec!["label"]);
    let answer = bus.call_method(Some(owner), PATH, Some(MENU), "GetLayout", &all).await.ok()?;
    answer.body().deserialize().ok()
}

/// An entry, and those of its submenu after it.
fn entries_below(value: &OwnedValue, found: &mut Vec<(i32, String)>) {
    found.extend(entry(value));
    let Ok(entry) = value.downcast_ref::<Structure>() else { return };
    let Some(Value::Array(children)) = entry.fields().get(2) else { return };
    for child in children.iter() {
        // Each is a variant that holds the entry.
        let child = if let Value::Value(inner) = child { inner } else { child };
        if let Ok(child) = child.try_to_owned() {
            entries_below(&child, found);
        }
    }
}

/// Id and label of an entry, without the underscores that mark keys.
fn entry(value: &OwnedValue) -> Option<(i32, String)> {
    let entry = value.downcast_ref::<Structure>().ok()?;
    let id = entry.fields().first()?.downcast_ref::<i32>().ok()?;
    let Value::Dict(properties) = entry.fields().get(1)? else { return None };
    let label: String = properties.get(&"label").ok()??;
    Some((id, label.replace('_', "")))
}

/// A desktop that shows tray icons: while it lives, a program finds a host.
pub struct TrayHost {
    _bus: Connection,
}

struct Watcher;

#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, _service: &str) {}

    fn register_status_notifier_host(&self, _service: &str) {}

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

impl TrayHost {
    /// # Panics
    /// When the session bus is not there, or has a host already.
    pub async fn start() -> Self {
        let bus = async {
            zbus::connection::Builder::session()?
                .serve_at("/StatusNotifierWatcher", Watcher)?
                .name("org.kde.StatusNotifierWatcher")?
                .build()
                .await
        };
        Self { _bus: bus.await.unwrap_or_else(|why| panic!("no tray host: {why}")) }
    }
}

/// A desktop that shows notifications: it remembers them and clicks them.
pub struct NotificationHost {
    bus: Connection,
    shown: Shown,
}

/// Number, title and text of each.
type Shown = std::sync::Arc<std::sync::Mutex<Vec<(u32, String, String)>>>;

struct Notifications(Shown);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    #[expect(clippy::too_many_arguments, reason = "as the specification has it")]
    fn notify(
        &self,
        _program: &str,
        _replaces: u32,
        _icon: &str,
        title: &str,
        text: &str,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _timeout: i32,
    ) -> u32 {
        let mut shown = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let id = u32::try_from(shown.len()).unwrap_or_default() + 1;
        shown.push((id, title.to_owned(), text.to_owned()));
        id
    }
}

impl NotificationHost {
    /// # Panics
    /// When the session bus is not there, or has a host already.
    pub async fn start() -> Self {
        let shown = Shown::default();
        let bus = async {
            zbus::connection::Builder::session()?
                .serve_at("/org/freedesktop/Notifications", Notifications(shown.clone()))?
                .name("org.freedesktop.Notifications")?
                .build()
                .await
        };
        let bus = bus.await.unwrap_or_else(|why| panic!("no notifications: {why}"));
        Self { bus, shown }
    }

    /// Those that were shown: number, title, text.
    pub fn shown(&self) -> Vec<(u32, String, String)> {
        self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Clicks one.
    ///
    /// # Panics
    /// When the bus is gone.
    pub async fn click(&self, id: u32) {
        let clicked = (id, "default");
        let told = self.bus.emit_signal(
            None::<&str>,
            "/org/freedesktop/Notifications",
            "org.freedesktop.Notifications",
            "ActionInvoked",
            &clicked,
        );
        told.await.unwrap_or_else(|why| panic!("the click was not told: {why}"));
    }
}
