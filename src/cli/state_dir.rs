//! Where this user's ledgers are (R35).

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::config::LedgerPlace;
use crate::agent::event::Events;
use crate::agent::namespace;
use crate::ledger::{self, ClusterId, Reading};

/// Environment variable that names the directory.
const OVERRIDE: &str = "KUBECTL_AICR_STATE_DIR";

/// How long commands that only look repeat what fails: people wait for them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The user's state directory, or the nearest that the platform has.
pub(crate) fn directory() -> Option<PathBuf> {
    match std::env::var_os(OVERRIDE) {
        Some(directory) if !directory.is_empty() => Some(directory.into()),
        _ => Some(dirs::state_dir().or_else(dirs::data_local_dir)?.join("kubectl-aicr")),
    }
}

/// The ledgers of one cluster's runs.
pub(crate) fn ledger_place(server: &str) -> Option<LedgerPlace> {
    Some(LedgerPlace { directory: directory()?, server: server.parse().ok()? })
}

/// What the ledgers tell of this cluster. What cannot be read is a warning.
pub(crate) async fn read_ledgers(cluster: &Cluster, server: &str, deadline: Instant, events: &Events) -> Reading {
    let Some(place) = ledger_place(server) else { return Reading::default() };
    let reading = ledger::read(&place.directory);
    for problem in &reading.problems {
        events.warn(problem);
    }
    if reading.pasts.is_empty() {
        return reading;
    }
    let uid = namespace::cluster_uid(cluster, deadline).await;
    reading.of_cluster(&ClusterId::new(&place.server, uid))
}
