//! What `kubectl aicr orphans` lists.

use std::collections::BTreeMap;

use super::{
    cli::{Invocation, Outcome},
    scene::Scene,
};

/// `Kind namespace/name` to reason.
pub(crate) type Listed = BTreeMap<String, String>;

impl Scene {
    /// `kubectl aicr orphans` of this scene's run.
    pub(crate) fn orphans(&self) -> Invocation {
        self.home.aicr(["orphans", "-n", &self.namespace.name, "--run-id", &self.run_id, "-o", "json"])
    }

    /// `kubectl aicr cleanup --yes`.
    pub(crate) fn cleanup(&self) -> Invocation {
        self.home.aicr(["cleanup", "--yes"])
    }

    /// What is listed of this scene's run, nothing being hidden.
    #[track_caller]
    pub(crate) fn listed(&self) -> impl Future<Output = Listed> {
        let caller = std::panic::Location::caller();
        async move {
            let ran = self.orphans().run().await;
            assert_eq!(ran.status(), Some(0), "orphans, called from {caller}: {ran}");
            listed(&ran)
        }
    }

    /// The files of the ledger.
    pub(crate) fn ledgers(&self) -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(self.home.state_dir()).into_iter().flatten();
        files.map(|file| file.unwrap().path()).collect()
    }
}

/// What an `orphans -o json` has listed.
pub(crate) fn listed(ran: &Outcome) -> Listed {
    let list = ran.stdout_json();
    let items = list["items"].as_array().expect("a list of items").iter();
    items
        .map(|item| {
            let [kind, name, reason] = ["kind", "name", "reason"].map(|key| item[key].as_str().unwrap());
            let object = match item["namespace"].as_str() {
                Some(namespace) => format!("{kind} {namespace}/{name}"),
                None => format!("{kind} {name}"),
            };
            (object, reason.to_owned())
        })
        .collect()
}
