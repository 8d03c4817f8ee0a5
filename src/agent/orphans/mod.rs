//! What runs left on a cluster (R37): from the ledgers and from the cluster itself, as it is now.

mod finish;
mod judge;
mod live;
mod survey;

use std::collections::BTreeSet;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::created_set::CreatedSet;
use crate::agent::event::Events;
use crate::agent::object::ObjectRef;
use crate::agent::run_id::{InvocationId, RunId};
use crate::error::ApiError;
use crate::ledger::Reading;

pub(crate) use finish::{Due, due};
pub(crate) use judge::{Filter, Orphan, Orphans};

/// What was found, and what could not be looked at.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) orphans: Orphans,
    /// What may be orphans, but for Jobs that could not be seen.
    pub(crate) undecided: Vec<ObjectRef>,
    /// Runs whose process has ended although their Job is active.
    pub(crate) abandoned: BTreeSet<RunId>,
    pub(crate) unseen: Vec<ApiError>,
}

/// Finds what runs left. The reading must be of this cluster. Reads are repeated until the deadline. Deletes nothing on
/// the cluster; what is proven gone is taken out of the ledgers.
pub(crate) async fn find(
    cluster: &Cluster,
    reading: &Reading,
    filter: &Filter,
    deadline: Instant,
    events: &Events,
) -> Result<Found, ApiError> {
    let (sight, unseen) = survey::everything(cluster, reading, filter, deadline).await?;
    let judgement = judge::judge(reading, sight, filter, Timestamp::now());
    forget(reading, &judgement.gone, events);
    let judge::Judgement { orphans, undecided, abandoned, .. } = judgement;
    Ok(Found { orphans, undecided, abandoned, unseen })
}

/// Takes out of the ledgers of dead processes what is gone, and removes the files that then tell nothing.
fn forget(reading: &Reading, gone: &[(InvocationId, ObjectRef)], events: &Events) {
    for past in reading.pasts.iter().filter(|past| !past.live) {
        let of_past = gone.iter().filter(|(invocation, object)| {
            *invocation == past.header.invocation_id && past.entries.find(object).is_some()
        });
        let mut objects = of_past.map(|(_, object)| object).peekable();
        if objects.peek().is_some() || past.entries.as_slice().is_empty() {
            let set = CreatedSet::resume(past, events.clone());
            objects.for_each(|object| set.withdraw(object));
            set.close_if_empty();
        }
    }
}

#[cfg(test)]
mod tests;
