//! Pod Security labels of the run's Namespace (R18). Pure.

use std::collections::BTreeMap;

/// What the labels say to a privileged agent. An agent without privileges is acceptable to every profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodSecurity {
    /// The profile that refuses its pod.
    pub(crate) refused_by: Option<String>,
    /// The profile that only warns.
    pub(crate) warned_by: Option<String>,
}

/// Evaluates the Namespace's labels for the mode.
pub(crate) fn evaluate(labels: &BTreeMap<String, String>, privileged: bool) -> PodSecurity {
    if !privileged {
        return PodSecurity::default();
    }
    let violated = |mode: &str| {
        let profile = labels.get(&format!("pod-security.kubernetes.io/{mode}"))?;
        // The server refuses labels with any other value.
        matches!(profile.as_str(), "baseline" | "restricted").then(|| profile.clone())
    };
    PodSecurity { refused_by: violated("enforce"), warned_by: violated("warn") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(enforce: &str, warn: &str) -> BTreeMap<String, String> {
        [("enforce", enforce), ("warn", warn), ("audit", "restricted"), ("enforce-version", "latest")]
            .into_iter()
            .filter(|(_, profile)| !profile.is_empty())
            .map(|(mode, profile)| (format!("pod-security.kubernetes.io/{mode}"), profile.to_owned()))
            .collect()
    }

    #[test]
    fn r18_a_privileged_agent_is_refused_by_every_profile_but_privileged() {
        for (enforce, refused) in [("", false), ("privileged", false), ("baseline", true), ("restricted", true)] {
            let found = evaluate(&labels(enforce, "privileged"), true);
            assert_eq!(found.refused_by.as_deref(), refused.then_some(enforce));
            assert_eq!(found.warned_by, None);
        }
        assert_eq!(evaluate(&labels("", "baseline"), true).warned_by.as_deref(), Some("baseline"));
    }

    #[test]
    fn r18_an_agent_without_privileges_passes_every_profile() {
        assert_eq!(evaluate(&labels("restricted", "restricted"), false), PodSecurity::default());
    }
}
