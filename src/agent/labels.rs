//! Labels of a run's objects (R4) and what they prove.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::agent::run_id::{InvocationId, RunId};

/// Key of the application's name.
pub(crate) const NAME: &str = "app.kubernetes.io/name";
/// Key of what manages an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Key of an object's part in the application.
pub(crate) const COMPONENT: &str = "app.kubernetes.io/component";
/// Key of the run ID.
pub(crate) const RUN_ID: &str = "aicr.run/run-id";
/// Key of the invocation ID.
pub(crate) const INVOCATION_ID: &str = "aicr.run/invocation-id";
/// Value of [`NAME`] and [`MANAGED_BY`].
pub(crate) const AICR: &str = "aicr";
/// Value of [`COMPONENT`] on everything that a run creates.
pub(crate) const SNAPSHOT_AGENT: &str = "snapshot-agent";
/// Value of [`COMPONENT`] on what `kubectl aicr roles` renders.
pub(crate) const AGENT_RBAC: &str = "agent-rbac";

/// The five labels of everything that this invocation creates.
pub(crate) fn of_run(run_id: &RunId, invocation_id: &InvocationId) -> BTreeMap<String, String> {
    [
        (NAME, AICR),
        (MANAGED_BY, AICR),
        (COMPONENT, SNAPSHOT_AGENT),
        (RUN_ID, run_id.as_str()),
        (INVOCATION_ID, invocation_id.as_str()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Labels of RBAC that an administrator keeps for an existing `ServiceAccount` (R12): of no run.
pub(crate) fn of_agent_rbac() -> BTreeMap<String, String> {
    [(NAME, AICR), (MANAGED_BY, AICR), (COMPONENT, AGENT_RBAC)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// The labels that count here, in a fraction of the room that all of them take: there may be thousands of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<BTreeMap<String, String>>")]
pub(crate) struct Marks {
    is_of_aicr: bool,
    is_managed: bool,
    is_of_agent: bool,
    run_id: Option<Box<str>>,
    invocation_id: Option<Box<str>>,
}

impl Marks {
    pub(crate) fn of(labels: &BTreeMap<String, String>) -> Self {
        let has = |key, value| labels.get(key).is_some_and(|label| label == value);
        Self {
            is_of_aicr: has(NAME, AICR),
            is_managed: has(MANAGED_BY, AICR),
            is_of_agent: has(COMPONENT, SNAPSHOT_AGENT),
            run_id: labels.get(RUN_ID).map(|value| value.as_str().into()),
            invocation_id: labels.get(INVOCATION_ID).map(|value| value.as_str().into()),
        }
    }

    /// Whether [`NAME`] says so, which is all that the agent writes.
    pub(crate) fn is_of_aicr(&self) -> bool {
        self.is_of_aicr
    }

    /// Whether some run created the object, by its labels.
    pub(crate) fn is_of_a_run(&self) -> bool {
        self.is_of_agent && self.is_managed
    }

    pub(crate) fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    pub(crate) fn invocation_id(&self) -> Option<&str> {
        self.invocation_id.as_deref()
    }

    /// Makes room, where nobody can ask for it.
    pub(crate) fn forget_invocation_id(&mut self) {
        self.invocation_id = None;
    }

    /// Whether all five labels are there with our values.
    pub(crate) fn prove_ownership(&self, run_id: &RunId, invocation_id: &InvocationId) -> bool {
        self.is_of_aicr
            && self.is_of_a_run()
            && self.run_id() == Some(run_id.as_str())
            && self.invocation_id() == Some(invocation_id.as_str())
    }
}

impl From<Option<BTreeMap<String, String>>> for Marks {
    fn from(labels: Option<BTreeMap<String, String>>) -> Self {
        labels.as_ref().map(Self::of).unwrap_or_default()
    }
}

/// Whether an object's labels prove that this very invocation created it: all five are there with our values.
pub(crate) fn prove_ownership(
    labels: Option<&BTreeMap<String, String>>,
    run_id: &RunId,
    invocation_id: &InvocationId,
) -> bool {
    labels.is_some_and(|labels| Marks::of(labels).prove_ownership(run_id, invocation_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r31_ownership_needs_every_one_of_the_five_labels() {
        let (run, invocation) = (crate::run_id::generate(), InvocationId::generate());
        let ours = of_run(&run, &invocation);
        assert_eq!(ours.len(), 5);
        assert!(prove_ownership(Some(&ours), &run, &invocation));
        assert!(!prove_ownership(None, &run, &invocation));
        for key in ours.keys() {
            let mut missing = ours.clone();
            missing.remove(key);
            assert!(!prove_ownership(Some(&missing), &run, &invocation), "without {key}");
            let mut foreign = ours.clone();
            foreign.insert(key.clone(), "other".to_owned());
            assert!(!prove_ownership(Some(&foreign), &run, &invocation), "foreign {key}");
        }
        assert!(!prove_ownership(Some(&ours), &run, &InvocationId::generate()));
    }
}
