//! The created-set (R29): what this invocation created, or may have, in memory and in the ledger on disk (R35).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::agent::cleanup::{Fate, Reason, Removal};
use crate::agent::event::Events;
use crate::agent::object::ObjectRef;
use crate::ledger::{Header, Ledger, Past};

/// How long after it was sent a create whose answer was lost may still be committed (R31). The server gives it up
/// before that.
const MAY_STILL_COMMIT: SignedDuration = SignedDuration::from_mins(2);

/// UID that the API server gave an object. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uid(String);

impl Uid {
    /// `None` for an empty UID, which identifies nothing.
    pub(crate) fn new(uid: String) -> Option<Self> {
        (!uid.is_empty()).then_some(Self(uid))
    }

    /// The UID as the API server writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Uid {
    type Error = &'static str;

    fn try_from(uid: String) -> Result<Self, Self::Error> {
        Self::new(uid).ok_or("a UID is never empty")
    }
}

impl From<Uid> for String {
    fn from(uid: Uid) -> Self {
        uid.0
    }
}

/// What is known about a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The create is about to be sent, on its way, or its answer was lost: the object may exist, and what stands at
    /// the name may be someone else's.
    Intended {
        /// When the request was about to be sent.
        at: Timestamp,
    },
    /// The server answered the create: the object with this UID is ours.
    Confirmed {
        /// Its UID.
        uid: Uid,
    },
}

impl Claim {
    /// Whether the absence of the object proves that it is gone for good.
    pub(crate) fn absence_is_final(&self, now: Timestamp) -> bool {
        match self {
            Self::Intended { at } => now.duration_since(*at) >= MAY_STILL_COMMIT,
            Self::Confirmed { .. } => true,
        }
    }
}

/// An object that this invocation created or may have created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub object: ObjectRef,
    /// What is known about its create.
    pub claim: Claim,
    /// Why cleanup left it, once cleanup looked at it.
    pub left: Option<Left>,
}

/// Why cleanup left an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The one word for it.
    pub reason: Reason,
    /// What the API server said, where it said something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What happens to a created-set: the lines of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    /// Creates are about to be sent.
    Intended { objects: Vec<ObjectRef>, at: Timestamp },
    /// The object has this UID and is ours.
    Confirmed { object: ObjectRef, uid: Uid },
    /// The create was refused, or the object is gone.
    Withdrawn { object: ObjectRef },
    /// Cleanup left the object.
    Left { object: ObjectRef, left: Left, at: Timestamp },
}

/// Entries in the order of their recording, one an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<Entry>);

impl Entries {
    /// The only way in which entries come and change, in memory and when a ledger is read.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Intended { objects, at } => {
                for object in objects {
                    self.entry(object, Claim::Intended { at: *at });
                }
            }
            Change::Confirmed { object, uid } => {
                let confirmed = || Claim::Confirmed { uid: uid.clone() };
                self.entry(object, confirmed()).claim = confirmed();
            }
            Change::Withdrawn { object } => self.0.retain(|entry| entry.object != *object),
            Change::Left { object, left, at } => {
                self.entry(object, Claim::Intended { at: *at }).left = Some(left.clone());
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn find(&self, object: &ObjectRef) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.object == *object)
    }

    /// The entry of an object, made with this claim if there is none.
    fn entry(&mut self, object: &ObjectRef, claim: Claim) -> &mut Entry {
        let index = self.0.iter().position(|entry| entry.object == *object).unwrap_or_else(|| {
            self.0.push(Entry { object: object.clone(), claim, left: None });
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// Keeps every create from the moment before it is sent. Cleanup deletes exactly what stands here.
#[derive(Debug, Default)]
pub struct CreatedSet {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: Entries,
    disk: Option<Disk>,
}

#[derive(Debug)]
struct Disk {
    ledger: Ledger,
    events: Events,
}

impl CreatedSet {
    /// From now on, before the first create, keeps the set on disk too. Where that cannot be, it warns, once, and the
    /// run goes on.
    pub(crate) fn keep_on_disk(&self, directory: &Path, header: &Header, events: Events) {
        match Ledger::open(directory, header) {
            Ok(ledger) => self.lock().disk = Some(Disk { ledger, events }),
            Err(error) => events.warn(without_ledger(directory, &error)),
        }
    }

    /// Goes on with the set of an earlier invocation.
    pub(crate) fn resume(past: &Past, events: Events) -> Self {
        let disk = match Ledger::reopen(past) {
            Ok(ledger) => Some(Disk { ledger, events }),
            Err(error) => {
                events.warn(format!("cannot write the ledger {}: {error}", past.path().display()));
                None
            }
        };
        Self { state: Mutex::new(State { entries: past.entries.clone(), disk }) }
    }

    /// Records creates that are about to be sent together, in one write. When this returns, they are on disk.
    pub(crate) fn intend<'a>(&self, objects: impl IntoIterator<Item = &'a ObjectRef>) {
        let objects = objects.into_iter().cloned().collect();
        self.lock().record(&Change::Intended { objects, at: Timestamp::now() });
    }

    /// Joins the UID of the create's answer to its entry. The staging `ConfigMap`, which the agent creates, enters the
    /// set this way.
    pub(crate) fn confirm(&self, object: &ObjectRef, uid: Uid) {
        self.lock().record(&Change::Confirmed { object: object.clone(), uid });
    }

    /// Takes an entry back: the server refused the create, or the object is gone.
    pub(crate) fn withdraw(&self, object: &ObjectRef) {
        self.lock().record(&Change::Withdrawn { object: object.clone() });
    }

    /// Takes note of what became of an object. The staging `ConfigMap` may enter the set this way, unproven.
    pub(crate) fn settle(&self, removal: &Removal) {
        let (object, mut state) = (removal.object.clone(), self.lock());
        let Some(reason) = removal.fate.reason() else {
            // A create that is still on its way may be committed after a look that found nothing.
            let is_final = removal.uid.is_some()
                || state.entries.find(&object).is_none_or(|entry| entry.claim.absence_is_final(Timestamp::now()));
            if is_final {
                state.record(&Change::Withdrawn { object });
            }
            return;
        };
        if let Some(uid) = &removal.uid {
            state.record(&Change::Confirmed { object: object.clone(), uid: uid.clone() });
        }
        let message = match &removal.fate {
            Fate::Failed(error) => Some(error.to_string()),
            _ => None,
        };
        state.record(&Change::Left { object, left: Left { reason, message }, at: Timestamp::now() });
    }

    /// Everything recorded, in the order of its recording.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.as_slice().to_vec()
    }

    /// The UID of an object whose create was answered.
    pub(crate) fn uid_of(&self, object: &ObjectRef) -> Option<Uid> {
        match self.lock().entries.find(object)?.claim {
            Claim::Confirmed { ref uid } => Some(uid.clone()),
            Claim::Intended { .. } => None,
        }
    }

    /// Removes the ledger's file if nothing is left to tell.
    pub(crate) fn close_if_empty(&self) {
        let mut state = self.lock();
        if state.entries.as_slice().is_empty()
            && let Some(Disk { ledger, events }) = state.disk.take()
            && let Err(error) = ledger.remove()
        {
            events.warn(format!("cannot remove the ledger of a run that left nothing: {error}"));
        }
    }

    // Every critical section leaves the entries whole, so a poisoned lock still guards valid ones.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record(&mut self, change: &Change) {
        self.entries.apply(change);
        if let Some(disk) = &mut self.disk
            && let Err(error) = disk.ledger.append(change)
        {
            disk.events.warn(without_ledger(disk.ledger.path(), &error));
        }
    }
}

fn without_ledger(path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot write the ledger {}: {error}; the run goes on, but if it is killed, `kubectl aicr cleanup` will not \
         know what it created",
        path.display()
    )
}
