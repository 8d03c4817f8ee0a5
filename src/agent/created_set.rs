//! The created-set (R29): what this invocation created, or may have.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::agent::cleanup::{Fate, Removal};
use crate::agent::object::ObjectRef;

/// UID that the API server gave an object. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uid(String);

impl Uid {
    /// `None` for an empty UID, which identifies nothing.
    #[must_use]
    pub fn new(uid: String) -> Option<Self> {
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
    Intended,
    /// The server answered the create: the object with this UID is ours.
    Confirmed {
        /// Its UID.
        uid: Uid,
    },
}

/// An object that this invocation created or may have created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub object: ObjectRef,
    /// What is known about it.
    pub claim: Claim,
}

/// Keeps every create from the moment before it is sent. Cleanup deletes exactly what stands here.
#[derive(Debug, Default)]
pub struct CreatedSet {
    entries: Mutex<Vec<Entry>>,
}

impl CreatedSet {
    /// Records that a create is about to be sent.
    pub(crate) fn intend(&self, object: &ObjectRef) {
        let mut entries = self.lock();
        if !entries.iter().any(|entry| entry.object == *object) {
            entries.push(Entry { object: object.clone(), claim: Claim::Intended });
        }
    }

    /// Joins the UID of the create's answer to its entry.
    pub(crate) fn confirm(&self, object: &ObjectRef, uid: Uid) {
        if let Some(entry) = self.lock().iter_mut().find(|entry| entry.object == *object) {
            entry.claim = Claim::Confirmed { uid };
        }
    }

    /// Takes an entry back: the server refused the create, or the object is gone.
    pub(crate) fn withdraw(&self, object: &ObjectRef) {
        self.lock().retain(|entry| entry.object != *object);
    }

    /// Takes note of what became of an object.
    pub(crate) fn settle(&self, removal: &Removal) {
        if matches!(removal.fate, Fate::Deleted | Fate::Gone) {
            self.withdraw(&removal.object);
        }
    }

    /// Everything recorded, in the order of its recording.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// The UID of an object whose create was answered.
    pub(crate) fn uid_of(&self, object: &ObjectRef) -> Option<Uid> {
        self.lock().iter().find(|entry| entry.object == *object).and_then(|entry| match &entry.claim {
            Claim::Confirmed { uid } => Some(uid.clone()),
            Claim::Intended => None,
        })
    }

    // Every critical section leaves the list whole, so a poisoned lock still guards a valid one.
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
