//! Cleanup (R29–R34): deletes exactly what an invocation created, each object pinned to its UID, and says what became
//! of each. The run's own cleanup and `kubectl aicr cleanup` both end here.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::future::join_all;
use kube::api::{DynamicObject, PartialObjectMeta, ResourceExt as _};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout_at};

use crate::agent::cluster::{Cluster, Deletion};
use crate::agent::config::Keep;
use crate::agent::created_set::{Claim, CreatedSet, Entry, Uid};
use crate::agent::labels;
use crate::agent::manifests::Identity;
use crate::agent::object::{Kind, ObjectRef};
use crate::error::{ApiError, Failure};

/// First and longest pause between two looks at an object that finalizers hold.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Pause between two looks at what an agent may still write. What it writes after the last look before its Job is gone
/// proves nothing, so the looks are close together.
const LOOK_FOR_STAGING: Duration = Duration::from_millis(100);

/// Why an object was not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// What stands at the name is not proven to be this invocation's.
    OwnerMismatch,
    /// The object shows no UID to pin a delete to.
    #[serde(rename = "MissingUID")]
    MissingUid,
    /// The staging `ConfigMap`'s Job is gone, so nothing proves whose it is.
    StagingJobGone,
    /// What stands at the staging name was not written by the agent.
    NotSnapshotArtifact,
    /// The delete was refused or could not be made.
    DeleteFailed,
    /// The delete was accepted, and finalizers hold the object.
    StillTerminating,
    /// The invocation ended before it cleaned up.
    Interrupted,
    /// Kept on request.
    Kept,
    /// No ledger speaks of the object.
    NoRecord,
    /// The object is so young that its run may not have made its Job yet.
    Starting,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OwnerMismatch => "OwnerMismatch",
            Self::MissingUid => "MissingUID",
            Self::StagingJobGone => "StagingJobGone",
            Self::NotSnapshotArtifact => "NotSnapshotArtifact",
            Self::DeleteFailed => "DeleteFailed",
            Self::StillTerminating => "StillTerminating",
            Self::Interrupted => "Interrupted",
            Self::Kept => "Kept",
            Self::NoRecord => "NoRecord",
            Self::Starting => "Starting",
        })
    }
}

/// What became of an object.
#[derive(Debug)]
pub enum Fate {
    /// Deleted by this cleanup.
    Deleted,
    /// Not there any more, or never was.
    Gone,
    /// Left on request.
    Kept,
    /// Left because it is not proven to be ours.
    Refused(Reason),
    /// The delete failed.
    Failed(ApiError),
    /// The delete was accepted; finalizers still hold the object.
    StillTerminating,
}

impl Fate {
    /// Whether the object was left although it should have gone.
    #[must_use]
    pub fn is_left(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Failed(_) | Self::StillTerminating)
    }

    /// Why the object is still there.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Deleted | Self::Gone => None,
            Self::Kept => Some(Reason::Kept),
            Self::Refused(reason) => Some(*reason),
            Self::Failed(_) => Some(Reason::DeleteFailed),
            Self::StillTerminating => Some(Reason::StillTerminating),
        }
    }

    /// Whether the cluster could not be reached, so that nothing is known of the object.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Failed(ApiError { failure: Failure::Transport(_) | Failure::NoAnswer(_), .. }))
    }
}

/// One word, as the table of objects shows it.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Deleted => "deleted",
            Self::Gone => "gone",
            Self::Kept => "kept",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::StillTerminating => "terminating",
        })
    }
}

/// An object of the created-set and what became of it.
#[derive(Debug)]
pub struct Removal {
    /// The object.
    pub object: ObjectRef,
    /// The UID that was ours, if it was ever known.
    pub uid: Option<Uid>,
    /// What became of it.
    pub fate: Fate,
}

/// What one invocation has left.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) identity: Identity,
    pub(crate) entries: Vec<Entry>,
    pub(crate) job: ObjectRef,
    /// Where the agent may have written although nobody read it: the run owns that output and ended early.
    pub(crate) unread_staging: Option<ObjectRef>,
    pub(crate) keep: Keep,
}

impl Remains {
    /// Sorts out what an invocation's entries leave to do. `staging` is where the agent was told to write, if the run
    /// owns that `ConfigMap`.
    pub(crate) fn new(
        identity: Identity,
        mut entries: Vec<Entry>,
        job: ObjectRef,
        staging: Option<ObjectRef>,
        keep: Keep,
    ) -> Self {
        let sent_job = entries.iter().any(|entry| entry.object == job);
        let is_read = |staging: &ObjectRef| {
            entries.iter().any(|entry| entry.object == *staging && matches!(entry.claim, Claim::Confirmed { .. }))
        };
        let unread_staging = staging.filter(|staging| sent_job && !is_read(staging));
        // Only the Job can prove it, so it is not an entry like the others.
        entries.retain(|entry| Some(&entry.object) != unread_staging.as_ref());
        Self { identity, entries, job, unread_staging, keep }
    }
}

/// An object that is ours, with the UID that a delete is pinned to.
#[derive(Clone, Debug)]
struct Ours {
    object: ObjectRef,
    uid: Uid,
}

/// Deletes what remains, until the deadline, and keeps the created-set up with it. The answer is in the order in which
/// the objects were made.
/// RBAC: `delete` on each kind; `get` where a create's answer was lost or a delete conflicts.
pub(crate) async fn run(cluster: &Cluster, remains: &Remains, created: &CreatedSet, deadline: Instant) -> Vec<Removal> {
    let engine = Engine { cluster, identity: &remains.identity, created, started: Instant::now(), deadline };
    let (kept, due): (Vec<&Entry>, Vec<&Entry>) = remains.entries.iter().partition(|entry| match remains.keep {
        Keep::Nothing => false,
        Keep::Job => entry.object.kind == Kind::Job,
        Keep::Everything => true,
    });
    let mut removals: Vec<Removal> = kept.into_iter().map(kept_removal).collect();
    let mut ours = Vec::new();
    for proof in join_all(due.into_iter().map(|entry| engine.prove(entry))).await {
        match proof {
            Ok(proven) => ours.push(proven),
            Err(removal) => removals.push(removal),
        }
    }

    // The sweep reads the Job before the Job is deleted.
    let job = remains.job_uid(&ours);
    let mut staging = match (&remains.unread_staging, job) {
        (Some(staging), Some(job)) if remains.keep != Keep::Everything => {
            Some(Staging { engine, object: staging, job: Ours { object: remains.job.clone(), uid: job }, proven: None })
        }
        _ => None,
    };
    let mut refused = match &mut staging {
        Some(staging) => staging.look().await,
        None => None,
    };
    if let Some(Staging { proven: Some(proven), .. }) = &staging {
        ours.push(proven.clone());
    }

    // Bindings go before the ServiceAccount that they grant to; a refused one does not hold it.
    let (accounts, others): (Vec<Ours>, Vec<Ours>) =
        ours.into_iter().partition(|ours| ours.object.kind == Kind::ServiceAccount);
    for wave in [others, accounts] {
        let deleted = join_all(wave.into_iter().map(|ours| engine.delete(ours))).await;
        removals.extend(deleted);
    }

    // The agent may write until its pod is gone, and only while the Job stands does that prove anything.
    if let Some(staging) = &mut staging {
        refused = staging.look_while_terminating(&mut removals, refused).await;
    }
    let terminating = removals.iter_mut().filter(|removal| matches!(removal.fate, Fate::StillTerminating));
    join_all(terminating.map(|removal| engine.wait_until_gone(removal))).await;
    removals.extend(refused);
    removals.sort_by_key(|removal| {
        remains.entries.iter().position(|entry| entry.object == removal.object).unwrap_or(usize::MAX)
    });
    for removal in &removals {
        created.settle(removal);
    }
    created.close_if_empty();
    removals
}

fn kept_removal(entry: &Entry) -> Removal {
    let uid = match &entry.claim {
        Claim::Intended { .. } => None,
        Claim::Confirmed { uid } => Some(uid.clone()),
    };
    Removal { object: entry.object.clone(), uid, fate: Fate::Kept }
}

impl Remains {
    /// The UID of this invocation's Job, if it is proven.
    fn job_uid(&self, ours: &[Ours]) -> Option<Uid> {
        let confirmed = self.entries.iter().find_map(|entry| match &entry.claim {
            Claim::Confirmed { uid } if entry.object == self.job => Some(uid.clone()),
            _ => None,
        });
        confirmed.or_else(|| ours.iter().find(|ours| ours.object == self.job).map(|ours| ours.uid.clone()))
    }
}

#[derive(Clone, Copy)]
struct Engine<'a> {
    cluster: &'a Cluster,
    identity: &'a Identity,
    created: &'a CreatedSet,
    started: Instant,
    deadline: Instant,
}

impl Engine<'_> {
    /// A call that may not outlast cleanup's deadline, whatever its own bounds are.
    async fn in_time<T>(&self, action: &str, call: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        timeout_at(self.deadline, call).await.unwrap_or_else(|_| {
            Err(ApiError { action: action.to_owned(), failure: Failure::NoAnswer(self.started.elapsed()) })
        })
    }

    async fn live(&self, object: &ObjectRef) -> Result<Option<PartialObjectMeta<DynamicObject>>, ApiError> {
        self.in_time(&format!("read {object}"), self.cluster.metadata(object, self.deadline)).await
    }

    /// What an entry's claim is worth: a UID to delete, or what else became of the object.
    async fn prove(&self, entry: &Entry) -> Result<Ours, Removal> {
        let object = entry.object.clone();
        let uid = match &entry.claim {
            Claim::Confirmed { uid } => return Ok(Ours { object, uid: uid.clone() }),
            // The answer was lost: what stands there now must say itself that it is ours (R31).
            Claim::Intended { .. } => match self.live(&object).await {
                Ok(None) => Err(Fate::Gone),
                Ok(Some(live)) if object.kind == Kind::ConfigMap => {
                    Err(Fate::Refused(document_uid(&live).err().unwrap_or(Reason::StagingJobGone)))
                }
                Ok(Some(live)) => self.prove_live(&live),
                Err(error) => Err(Fate::Failed(error)),
            },
        };
        match uid {
            Ok(uid) => Ok(Ours { object, uid }),
            Err(fate) => Err(Removal { object, uid: None, fate }),
        }
    }

    fn prove_live(&self, live: &PartialObjectMeta<DynamicObject>) -> Result<Uid, Fate> {
        let Identity { run_id, invocation_id } = self.identity;
        if !labels::prove_ownership(live.metadata.labels.as_ref(), run_id, invocation_id) {
            return Err(Fate::Refused(Reason::OwnerMismatch));
        }
        live_uid(live).ok_or(Fate::Refused(Reason::MissingUid))
    }

    async fn delete(&self, ours: Ours) -> Removal {
        let delete = self.cluster.delete(&ours.object, &ours.uid, self.deadline);
        let fate = match self.in_time(&format!("delete {}", ours.object), delete).await {
            Ok(Deletion::Deleted) => Fate::Deleted,
            Ok(Deletion::Gone) => Fate::Gone,
            Ok(Deletion::Terminating) => Fate::StillTerminating,
            Err(error) => Fate::Failed(error),
        };
        Removal { object: ours.object, uid: Some(ours.uid), fate }
    }

    /// Whether an object with this UID stands, as far as can be seen.
    async fn stands(&self, object: &ObjectRef, uid: &Uid) -> Result<bool, ApiError> {
        let live = self.live(object).await?;
        Ok(live.and_then(|live| live_uid(&live)).as_ref() == Some(uid))
    }

    async fn wait_until_gone(&self, removal: &mut Removal) {
        let Some(uid) = removal.uid.clone() else { return };
        let mut pause = LOOK_AGAIN.0;
        loop {
            // An object that cannot be looked at is said to be where it was last known to be.
            match self.stands(&removal.object, &uid).await {
                Ok(false) => removal.fate = Fate::Deleted,
                Ok(true) if Instant::now() + pause < self.deadline => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LOOK_AGAIN.1);
                    continue;
                }
                Ok(true) | Err(_) => {}
            }
            return;
        }
    }
}

/// The UID of what stands at the staging name, or why it cannot be the agent's document.
fn document_uid(live: &PartialObjectMeta<DynamicObject>) -> Result<Uid, Reason> {
    let uid = live_uid(live).ok_or(Reason::MissingUid)?;
    match live.labels().get(labels::NAME) {
        Some(name) if name == labels::AICR => Ok(uid),
        _ => Err(Reason::NotSnapshotArtifact),
    }
}

fn live_uid(live: &PartialObjectMeta<DynamicObject>) -> Option<Uid> {
    Uid::new(live.uid().unwrap_or_default())
}

/// The `ConfigMap` that the agent may have written, or may yet write (R32).
struct Staging<'a> {
    engine: Engine<'a>,
    object: &'a ObjectRef,
    job: Ours,
    /// Seen while our Job stood, so it is the agent's.
    proven: Option<Ours>,
}

impl Staging<'_> {
    /// Looks at the name, and then whether the Job still stands. Gives what was found but cannot be proven.
    async fn look(&mut self) -> Option<Removal> {
        let refused = |fate| Some(Removal { object: self.object.clone(), uid: None, fate });
        let live = match self.engine.live(self.object).await {
            Ok(Some(live)) => live,
            Ok(None) => return None,
            Err(error) => return refused(Fate::Failed(error)),
        };
        let uid = match document_uid(&live) {
            Ok(uid) => uid,
            Err(reason) => return refused(Fate::Refused(reason)),
        };
        if self.proven.as_ref().is_some_and(|proven| proven.uid == uid) {
            return None;
        }
        match self.engine.stands(&self.job.object, &self.job.uid).await {
            Ok(true) => {
                // The proof goes with the Job, so it is recorded before.
                self.engine.created.confirm(self.object, uid.clone());
                self.proven = Some(Ours { object: self.object.clone(), uid });
                None
            }
            Ok(false) => refused(Fate::Refused(Reason::StagingJobGone)),
            Err(error) => refused(Fate::Failed(error)),
        }
    }

    /// Deletes what the agent writes while its Job is going, and looks once more when the Job is gone. Gives what
    /// then stands there unproven; `refused` is what was found before.
    async fn look_while_terminating(
        &mut self,
        removals: &mut Vec<Removal>,
        mut refused: Option<Removal>,
    ) -> Option<Removal> {
        let going = removals
            .iter()
            .any(|removal| removal.object == self.job.object && matches!(removal.fate, Fate::StillTerminating));
        loop {
            let job_stands = going && self.engine.stands(&self.job.object, &self.job.uid).await.unwrap_or(true);
            let before = self.proven.as_ref().map(|proven| proven.uid.clone());
            let found = self.look().await;
            // The last look may come too late for an answer, and then says less than the one before.
            if matches!(&found, Some(Removal { fate: Fate::Failed(_), .. })) && Instant::now() >= self.engine.deadline {
                return refused;
            }
            refused = found;
            if let Some(proven) = self.proven.clone()
                && Some(&proven.uid) != before.as_ref()
            {
                removals.push(self.engine.delete(proven).await);
            }
            if !job_stands || Instant::now() + LOOK_FOR_STAGING >= self.engine.deadline {
                return refused;
            }
            sleep(LOOK_FOR_STAGING).await;
        }
    }
}
