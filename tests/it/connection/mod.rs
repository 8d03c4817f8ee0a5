//! Every connection flag, variable and kubeconfig entry: where it leads the real kubectl, it leads the plugin (R39).

mod in_pod;
mod mid_run;
mod on_the_bed;
mod recorder;
mod rig;
mod situations;
mod ways;

use std::{collections::BTreeSet, path::PathBuf};

use futures::{StreamExt as _, stream};

use self::rig::Rig;
use self::situations::{CHOICES, Situation};
use self::ways::WAYS;
use crate::support::built;

/// How many situations are tried at a time: where nobody answers, the plugin asks again for some seconds.
const AT_ONCE: usize = 4;

/// Whom to compare.
struct Programs {
    kubectl: PathBuf,
    plugin: PathBuf,
}

impl Programs {
    fn as_built() -> Self {
        Self { kubectl: built::kubectl(), plugin: env!("CARGO_BIN_EXE_kubectl-aicr").into() }
    }
}

/// What differs between kubectl, the plugin, and what is expected of both.
async fn compare(situation: &Situation, programs: &Programs) -> Option<String> {
    let rig = Rig::start().await;
    let Situation { flags, env, kubectl, plugin, .. } = situation;
    let ours = rig.observe(&programs.plugin, &["orphans"], flags, env).await;
    let theirs = rig.observe(&programs.kubectl, &["get", "configmaps", "-o", "name"], flags, env).await;
    let mut wrong = Vec::new();
    if theirs.summary() != *kubectl {
        wrong.push(format!("kubectl: {}\nexpected: {kubectl}\n{}", theirs.summary(), theirs.outcome));
    }
    if ours.summary() != plugin.unwrap_or(kubectl) {
        wrong.push(format!("plugin: {}\nexpected: {}\n{}", ours.summary(), plugin.unwrap_or(kubectl), ours.outcome));
    }
    // kubectl asks a plugin that fails again and again.
    let told = |calls: &[String]| calls.iter().cloned().collect::<BTreeSet<_>>();
    if told(&ours.told) != told(&theirs.told) || ours.told.len() > theirs.told.len() {
        wrong.push(format!("kubectl tells the credential plugin {:#?},\nthe plugin {:#?}", theirs.told, ours.told));
    }
    (!wrong.is_empty()).then(|| format!("{flags:?} {env:?}\n{}", wrong.join("\n")))
}

async fn compare_all(situations: &[Situation], programs: &Programs) {
    let compared = stream::iter(situations).map(|situation| compare(situation, programs)).buffer_unordered(AT_ONCE);
    let wrong: Vec<String> = compared.filter_map(async |wrong| wrong).collect().await;
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), situations.len(), wrong.join("\n\n"));
}

#[tokio::test]
async fn r39_each_connection_flag_leads_where_it_leads_the_real_kubectl() {
    compare_all(CHOICES, &Programs::as_built()).await;
}

#[tokio::test]
async fn r39_proxies_and_credential_plugins_are_used_as_the_real_kubectl_uses_them() {
    compare_all(WAYS, &Programs::as_built()).await;
}
