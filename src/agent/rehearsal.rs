//! What a run would create, without creating it (R40).

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::config::Config;
use crate::agent::event::Events;
use crate::agent::manifests::{Account, Identity, Manifest, Names, Plan};
use crate::agent::namespace;
use crate::agent::object::Kind;
use crate::agent::run_id::{self, InvocationId, RunId};
use crate::error::{ApiError, Error};

/// What a run of this configuration would create, as far as no cluster is needed to tell: whether a named
/// `ServiceAccount` exists is not looked up, so its name is taken for a prefix.
///
/// # Errors
/// [`Error::Invalid`] for a configuration that no cluster is needed to refuse.
pub fn plan(config: &Config) -> Result<Vec<Value>, Error> {
    config.validate()?;
    let run_id = config.run_id.clone().unwrap_or_else(run_id::generate);
    let names = Names::new(config, &run_id)?;
    let identity = Identity { run_id, invocation_id: InvocationId::generate() };
    let account = Account::Owned { name: names.account.clone() };
    Ok(Plan::new(config, &identity, &names, &account).all().map(|manifest| manifest.body.clone()).collect())
}

/// Sends every create of a plan as a dry run, all at once.
pub(super) async fn run(
    cluster: &Cluster,
    config: &Config,
    run_id: &RunId,
    plan: Plan,
    namespace: &namespace::State,
    deadline: Instant,
    events: &Events,
) -> Result<Vec<Value>, Error> {
    let is_new = *namespace == namespace::State::Absent;
    let (unchecked, checked): (Vec<&Manifest>, Vec<&Manifest>) =
        plan.all().partition(|manifest| is_new && manifest.object.namespace.as_ref() == Some(&config.namespace));
    if !unchecked.is_empty() {
        events.warn(format!(
            "namespace {} does not exist yet, so the server cannot check what would be created in it: {} objects are \
             unchecked",
            config.namespace,
            unchecked.len()
        ));
    }
    let new = is_new.then(|| namespace::manifest(&config.namespace));
    let answers = checked.into_iter().chain(&new).map(|manifest| async {
        match cluster.dry_run(manifest, deadline).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() && manifest.object.kind != Kind::Namespace => {
                Err(Error::RunIdInUse { run_id: run_id.clone(), object: manifest.object.clone() })
            }
            Err(error) if names_a_role_to_come(manifest, &error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    });
    join_all(answers).await.into_iter().collect::<Result<Vec<()>, Error>>()?;
    Ok(new.iter().chain(plan.all()).map(|manifest| manifest.body.clone()).collect())
}

/// A binding's role would be created before it, and a dry run creates nothing.
fn names_a_role_to_come(manifest: &Manifest, error: &ApiError) -> bool {
    matches!(manifest.object.kind, Kind::RoleBinding | Kind::ClusterRoleBinding) && error.is_not_found()
}
