//! Finishing what an interrupted invocation left (R38), by the engine that a run's own cleanup uses.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::agent::cleanup::{self, Reason, Remains, Removal};
use crate::agent::cluster::Cluster;
use crate::agent::config::Keep;
use crate::agent::created_set::{CreatedSet, Entry};
use crate::agent::event::Events;
use crate::agent::manifests::Identity;
use crate::agent::orphans::judge::{Finding, examine, recorded};
use crate::agent::orphans::{forget, survey};
use crate::error::ApiError;
use crate::ledger::{Past, Reading};

/// What is left to do of one invocation.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) past: Past,
    pub(crate) entries: Vec<Entry>,
}

/// Finds what there is to do for the pasts of a reading. What was kept on purpose is taken only if `named`. What is
/// proven gone is taken out of the ledgers. RBAC: `get` on what the ledgers name.
pub(crate) async fn due(
    cluster: &Cluster,
    reading: &Reading,
    named: bool,
    deadline: Instant,
    events: &Events,
) -> Result<Vec<Due>, ApiError> {
    let sight = survey::recorded_objects(cluster, &reading.pasts, deadline).await?;
    let (now, mut gone, mut all) = (Timestamp::now(), Vec::new(), Vec::new());
    for past in &reading.pasts {
        let mut entries = recorded(past);
        entries.retain(|entry| match examine(past, entry, &sight, now) {
            Finding::Gone => {
                gone.push((past.header.invocation_id.clone(), entry.object.clone()));
                false
            }
            Finding::MayYetCome => false,
            // What may not be read may still be deleted.
            Finding::Unseen | Finding::Ours(_) | Finding::Unproven(_) => named || !is_kept(entry),
        });
        if !entries.is_empty() {
            all.push(Due { past: past.clone(), entries });
        }
    }
    forget(reading, &gone, events);
    Ok(all)
}

fn is_kept(entry: &Entry) -> bool {
    entry.left.as_ref().is_some_and(|left| left.reason == Reason::Kept)
}

impl Due {
    /// Deletes it, as far as it is proven, until the deadline. RBAC: `delete` on each kind, and `get`.
    pub(crate) async fn finish(&self, cluster: &Cluster, deadline: Instant, events: Events) -> Vec<Removal> {
        let header = &self.past.header;
        let identity = Identity { run_id: header.run_id.clone(), invocation_id: header.invocation_id.clone() };
        let (job, staging) = (header.job.clone(), header.staging.clone());
        let remains = Remains::new(identity, self.entries.clone(), job, staging, Keep::Nothing);
        let created = CreatedSet::resume(&self.past, events);
        cleanup::run(cluster, &remains, &created, deadline).await
    }
}
