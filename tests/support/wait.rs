//! Waiting for a state instead of for a time.

use std::time::Duration;

use tokio::time::Instant;

/// How long the tests wait for anything that must happen. Far above what an idle
/// machine needs, so that a loaded one passes too.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Calls `probe` until it gives a value, and panics if that takes too long.
pub(crate) async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(10);
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(Instant::now() < deadline, "gave up waiting for {what}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}
