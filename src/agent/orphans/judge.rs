//! Which objects are orphans, and why (R37). Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::agent::cleanup::Reason;
use crate::agent::created_set::{Claim, Entry, Left, Uid};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::orphans::live::{Live, Sight};
use crate::agent::run_id::{InvocationId, RunId};
use crate::ledger::{Past, Reading};

/// How long a run elsewhere may take from its first object to its Job.
const STARTING: SignedDuration = SignedDuration::from_mins(1);

/// An object that is left of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) object: ObjectRef,
    pub(crate) uid: Option<Uid>,
    /// Empty where the object does not say it.
    pub(crate) run_id: Box<str>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) left: Left,
}

/// There may be thousands: those of a page take the place of the objects that they are found among.
const _: () = assert!(size_of::<Orphan>() <= size_of::<Live>());

/// Orphans, page by page as their objects came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans(Vec<Vec<Orphan>>);

impl Orphans {
    /// By run, then by object.
    pub(crate) fn in_order(&self) -> Vec<&Orphan> {
        let mut all: Vec<&Orphan> = self.0.iter().flatten().collect();
        all.sort_unstable_by_key(|orphan| (&orphan.run_id, &orphan.object));
        all
    }
}

/// What the caller wants to see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// One namespace, and what is in none.
    pub(crate) namespace: Option<String>,
    pub(crate) run_id: Option<RunId>,
}

impl Filter {
    pub(crate) fn takes_namespace_of(&self, object: &ObjectRef) -> bool {
        match (&self.namespace, &object.namespace) {
            (Some(wanted), Some(namespace)) => wanted == namespace,
            _ => true,
        }
    }

    pub(crate) fn takes_run(&self, run_id: &str) -> bool {
        self.run_id.as_ref().is_none_or(|wanted| wanted.as_str() == run_id)
    }
}

/// What follows from the ledgers and what was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) orphans: Orphans,
    /// Entries of dead processes whose object is gone for good.
    pub(crate) gone: Vec<(InvocationId, ObjectRef)>,
    /// Objects that are orphans unless their run is active where no Jobs could be seen.
    pub(crate) undecided: Vec<ObjectRef>,
    /// Runs whose process has ended although their Job is active: no orphans yet, but nobody will clean them up.
    pub(crate) abandoned: BTreeSet<RunId>,
}

/// What became of an entry's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It stands.
    Ours(Left),
    /// Something stands that nothing proves to be it.
    Unproven(Reason),
    /// It is gone for good.
    Gone,
    /// It does not exist, but its create may still be committed.
    MayYetCome,
    /// It could not be looked at.
    Unseen,
}

/// Judges what was seen.
pub(crate) fn judge(reading: &Reading, mut sight: Sight, filter: &Filter, now: Timestamp) -> Judgement {
    let mut judgement = Judgement::default();
    let mut claims: BTreeMap<ObjectRef, (&Past, Finding)> = BTreeMap::new();
    for past in reading.pasts.iter().filter(|past| !past.live) {
        for entry in recorded(past) {
            match examine(past, &entry, &sight, now) {
                Finding::Gone => judgement.gone.push((past.header.invocation_id.clone(), entry.object)),
                Finding::MayYetCome | Finding::Unseen => {}
                // Whose it is proven to be says more than who wonders.
                Finding::Unproven(_) if claims.contains_key(&entry.object) => {}
                finding @ (Finding::Ours(_) | Finding::Unproven(_)) => {
                    claims.insert(entry.object, (past, finding));
                }
            }
        }
    }

    let active = active_runs(reading, &sight);
    let with_job = runs_with_job(&sight);
    let unfinished = |past: &&Past| past.entries.as_slice().iter().any(|entry| entry.left.is_none());
    let ended = reading.pasts.iter().filter(|past| !past.live).filter(unfinished);
    let abandoned = ended.map(|past| &past.header.run_id).filter(|run_id| active.contains(run_id.as_str()));
    judgement.abandoned = abandoned.filter(|run_id| filter.takes_run(run_id.as_str())).cloned().collect();
    let pages = std::mem::take(&mut sight.live).into_pages();
    let mut orphan = |live: Live| {
        if !filter.takes_namespace_of(&live.object) || belongs_to_live_process(&live, reading) {
            return None;
        }
        let claim = claims.get(&live.object);
        let (runs, left) = match claim {
            Some((past, Finding::Ours(left))) => (vec![past.header.run_id.to_string()], left.clone()),
            Some((past, Finding::Unproven(reason))) => (vec![past.header.run_id.to_string()], because(*reason)),
            _ => {
                let runs = live.runs();
                let reason = unrecorded(&live, &runs, &with_job, now);
                (runs, because(reason))
            }
        };
        let run_id = runs.first().filter(|run_id| filter.takes_run(run_id))?;
        if live.active || runs.iter().any(|run| active.contains(run)) {
            return None;
        }
        if claim.is_none() && !runs.iter().all(|run| sight.would_see_job(&live.object, run)) {
            judgement.undecided.push(live.object);
            return None;
        }
        let run_id = run_id.as_str().into();
        Some(Orphan { object: live.object, uid: live.uid, run_id, created: live.created, left })
    };
    judgement.orphans = Orphans(pages.map(|page| page.into_iter().filter_map(&mut orphan).collect()).collect());
    judgement
}

/// A past's entries, and its staging `ConfigMap` if the agent may have written it unread.
pub(crate) fn recorded(past: &Past) -> Vec<Entry> {
    let mut entries = past.entries.as_slice().to_vec();
    if let (Some(staging), Some(job)) = (&past.header.staging, past.entries.find(&past.header.job))
        && past.entries.find(staging).is_none()
    {
        let left = job.left.clone().filter(|left| left.reason == Reason::Kept);
        let claim = Claim::Intended { at: past.header.started_at };
        entries.push(Entry { object: staging.clone(), claim, left });
    }
    entries
}

/// What became of an entry's object.
pub(crate) fn examine(past: &Past, entry: &Entry, sight: &Sight, now: Timestamp) -> Finding {
    let Some(live) = sight.live.get(&entry.object) else {
        return match sight.absent.contains(&entry.object) {
            true if entry.claim.absence_is_final(now) => Finding::Gone,
            true => Finding::MayYetCome,
            false => Finding::Unseen,
        };
    };
    match &entry.claim {
        Claim::Confirmed { uid } if live.uid.as_ref() != Some(uid) => Finding::Gone,
        Claim::Intended { .. } if live.object.kind == Kind::ConfigMap => {
            if !live.is_snapshot_artifact() {
                Finding::Unproven(Reason::NotSnapshotArtifact)
            } else if live.uid.is_none() {
                Finding::Unproven(Reason::MissingUid)
            } else if job_stands(past, sight) {
                Finding::Ours(still_there(entry, live))
            } else {
                Finding::Unproven(Reason::StagingJobGone)
            }
        }
        Claim::Intended { .. } if !is_proven(past, live) => Finding::Unproven(Reason::OwnerMismatch),
        Claim::Intended { .. } if live.uid.is_none() => Finding::Unproven(Reason::MissingUid),
        Claim::Intended { .. } | Claim::Confirmed { .. } => Finding::Ours(still_there(entry, live)),
    }
}

/// Why an object that is ours is still there.
fn still_there(entry: &Entry, live: &Live) -> Left {
    match &entry.left {
        _ if live.terminating => because(Reason::StillTerminating),
        Some(left) if matches!(left.reason, Reason::DeleteFailed | Reason::Kept) => left.clone(),
        _ => because(Reason::Interrupted),
    }
}

fn unrecorded(live: &Live, runs: &[String], with_job: &RunsWithJob, now: Timestamp) -> Reason {
    let has_job = |run: &String| with_job.contains(&(live.object.namespace.clone(), run.clone()));
    match live.object.kind {
        _ if live.terminating => Reason::StillTerminating,
        // Its Job was there before it.
        Kind::ConfigMap if !runs.iter().any(has_job) => Reason::StagingJobGone,
        Kind::ConfigMap => Reason::NoRecord,
        _ if live.created.is_some_and(|created| now.duration_since(created) < STARTING) => Reason::Starting,
        _ => Reason::NoRecord,
    }
}

fn is_proven(past: &Past, live: &Live) -> bool {
    live.labels.prove_ownership(&past.header.run_id, &past.header.invocation_id)
}

/// Whether the past's own Job stands.
fn job_stands(past: &Past, sight: &Sight) -> bool {
    let (job, entry) = (sight.live.get(&past.header.job), past.entries.find(&past.header.job));
    job.zip(entry).is_some_and(|(job, entry)| match &entry.claim {
        Claim::Confirmed { uid } => job.uid.as_ref() == Some(uid),
        Claim::Intended { .. } => job.uid.is_some() && is_proven(past, job),
    })
}

/// Namespaces and runs by the label of a Job that stands there.
type RunsWithJob = BTreeSet<(Option<String>, String)>;

fn runs_with_job(sight: &Sight) -> RunsWithJob {
    let jobs = sight.live.iter().filter(|live| live.object.kind == Kind::Job);
    jobs.filter_map(|job| Some((job.object.namespace.clone(), job.labels.run_id()?.to_owned()))).collect()
}

/// Runs that have an active Job, by its label or by a ledger.
fn active_runs(reading: &Reading, sight: &Sight) -> BTreeSet<String> {
    let is_active = |job: &ObjectRef| sight.live.get(job).is_some_and(|job| job.active);
    let labelled = sight.live.iter().filter(|live| live.active).filter_map(|live| live.labels.run_id());
    let recorded = reading.pasts.iter().filter(|past| is_active(&past.header.job) && job_stands(past, sight));
    labelled.map(str::to_owned).chain(recorded.map(|past| past.header.run_id.to_string())).collect()
}

fn belongs_to_live_process(live: &Live, reading: &Reading) -> bool {
    let invocation = live.labels.invocation_id();
    reading.live.iter().any(|id| invocation == Some(id.as_str()))
        || reading.pasts.iter().any(|past| past.live && past.header.staging.as_ref() == Some(&live.object))
}

fn because(reason: Reason) -> Left {
    Left { reason, message: None }
}
