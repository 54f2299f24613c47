//! The tray over D-Bus: the menu that the program exports, and a host for it.

use crate::wait_until;
use std::{collections::HashMap, time::Duration};
use zbus::{
    Connection, fdo,
    zvariant::{OwnedValue, Structure, Value},
};

const PATH: &str = "/org/ayatana/NotificationItem/tray_icon_tray_app_main/Menu";
const MENU: &str = "com.canonical.dbusmenu";

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
                if is_unique
                    && owner.ok() == Some(pid)
                    && layout(&bus, name.as_str()).await.is_some()
                {
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

    /// Clicks the entry whose label begins so.
    ///
    /// # Panics
    /// When there is none.
    pub async fn click(&self, label: &str) {
        let entries = self.entries().await;
        let found = entries.iter().find(|(_, found)| found.starts_with(label));
        let (id, _) = found.unwrap_or_else(|| panic!("no entry {label:?} in {entries:?}"));
        let event = (*id, "clicked", Value::from(""), 0_u32);
        let clicked = self
            .bus
            .call_method(Some(self.owner.as_str()), PATH, Some(MENU), "Event", &event)
            .await;
        clicked.unwrap_or_else(|why| panic!("click on {label:?}: {why}"));
    }

    async fn entries(&self) -> Vec<(i32, String)> {
        let layout = layout(&self.bus, &self.owner).await;
        let (_, (_, _, children)) = layout.unwrap_or_else(|| panic!("the menu is gone"));
        children.iter().filter_map(entry).collect()
    }
}

async fn layout(bus: &Connection, owner: &str) -> Option<Layout> {
    let all = (0_i32, -1_i32, vec!["label"]);
    let answer = bus.call_method(Some(owner), PATH, Some(MENU), "GetLayout", &all).await.ok()?;
    answer.body().deserialize().ok()
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
