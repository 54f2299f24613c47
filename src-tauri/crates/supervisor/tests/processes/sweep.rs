//! The next start after app and warden were both killed.

use crate::{
    app::App,
    crash::{STUBBORN, stubborn, unmarked},
    world::{Bystander, LIMIT, mark, marked, soon, until},
};
use gantry_supervisor::sweep;

/// App and wardens at once: the app is stopped so that it cannot react.
fn kill_both(app: App) {
    app.signal("STOP");
    for warden in &app.wardens {
        crate::stop::signal(warden.pid, "KILL");
    }
    app.kill();
}

// One test, because a sweep is of the whole system: two would see each other's orphans.
#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_swept_and_nobody_else_is() {
    let (dead, living) = (mark(), mark());
    let other = App::start(&stubborn(&living), true);
    let bystander = Bystander::start(&dead);
    let mut scripts = stubborn(&dead);
    scripts.push(unmarked(&dead));
    let app = App::start(&scripts, true);
    let all = STUBBORN + 4;
    assert!(until(LIMIT, || marked(&dead).len() > all && marked(&living).len() >= STUBBORN).await);
    kill_both(app);
    // The programs died with their wardens; what they had started did not.
    let before = marked(&dead);
    assert!(before.len() > 3, "{before:?}");

    let report = sweep(soon(LIMIT / 10)).await;
    assert_eq!(report.left, []);
    assert!(
        report.ended.iter().any(|(id, command)| before.contains(id) && command.contains(&dead))
    );
    let left = marked(&dead);
    assert_eq!(left.len(), 1, "only the bystander: {left:?}");
    assert!(marked(&living).len() >= STUBBORN, "a living owner's were touched");

    // Without wardens an app that is killed leaves everything to the sweep.
    let app = App::start(&stubborn(&dead), false);
    assert!(until(LIMIT, || marked(&dead).len() > STUBBORN).await);
    app.kill();
    let report = sweep(soon(LIMIT / 10)).await;
    assert_eq!((report.left.len(), marked(&dead).len()), (0, 1));

    other.quit();
    assert!(until(LIMIT, || marked(&living).is_empty()).await);
    let report = sweep(soon(LIMIT / 10)).await;
    assert!(
        !report
            .ended
            .iter()
            .any(|(_, command)| command.contains(&dead) || command.contains(&living))
    );
    drop(bystander);
}
