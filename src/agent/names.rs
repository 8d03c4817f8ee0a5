//! Names of a run's objects (R3). Pure.

use crate::agent::run_id::RunId;
use crate::error::Invalid;

/// Longest name of a run's object: it is also a label value of the pods that the Job controller makes.
const LONGEST: usize = 63;

/// Prefix of the run's `ClusterRole` and `ClusterRoleBinding`.
pub(crate) const NODE_READER: &str = "aicr-node-reader";

/// Prefix of the `ConfigMap` in which the agent leaves the document.
const STAGING: &str = "aicr-agent-snapshot";

/// Joins a prefix and a run ID to at most 63 characters: the prefix is cut, never the run ID.
pub(crate) fn run_scoped(prefix: &str, run_id: &RunId) -> String {
    let room = LONGEST.saturating_sub(run_id.as_str().len() + 1);
    let cut: String = prefix.chars().take(room).collect();
    match cut.trim_end_matches(['-', '.']) {
        "" => run_id.to_string(),
        prefix => format!("{prefix}-{run_id}"),
    }
}

/// A name made of a prefix that the user gave, checked as the API server would check it.
///
/// # Errors
/// [`Invalid`] naming the flag, its value and the name that would have come of it.
pub(crate) fn checked(flag: &'static str, prefix: &str, run_id: &RunId) -> Result<String, Invalid> {
    let name = run_scoped(prefix, run_id);
    match check_dns_subdomain(&name) {
        Ok(()) => Ok(name),
        Err(rule) => Err(Invalid::new(flag, prefix, format!("it would name objects \"{name}\": {rule}"))),
    }
}

/// Name of the `ConfigMap` in which the agent of a run leaves the document.
#[must_use]
pub fn staging_config_map_name(run_id: &RunId) -> String {
    run_scoped(STAGING, run_id)
}

/// The runs whose document may be in a `ConfigMap` of this name, the likeliest first. A run ID so long that the prefix
/// is cut leaves some doubt about where it begins.
pub(crate) fn runs_of_staging_config_map(name: &str) -> impl Iterator<Item = RunId> + '_ {
    (1..=STAGING.len()).rev().filter_map(move |length| {
        let run_id = name.strip_prefix(&STAGING[..length])?.strip_prefix('-')?;
        RunId::parse(run_id).ok().filter(|id| staging_config_map_name(id) == name)
    })
}

/// DNS-1123 label (RFC 1123): what a namespace, a run ID and a container may be called.
pub(crate) fn check_dns_label(value: &str) -> Result<(), &'static str> {
    const RULE: &str = "must be a DNS-1123 label: 1 to 63 lower-case letters, digits or '-', starting and ending \
                        with a letter or digit";
    if value.len() <= 63 && is_dns_label(value) { Ok(()) } else { Err(RULE) }
}

/// DNS-1123 subdomain: what most objects may be called.
pub(crate) fn check_dns_subdomain(value: &str) -> Result<(), &'static str> {
    const RULE: &str = "must be a DNS-1123 subdomain: at most 253 lower-case letters, digits, '-' or '.', each part \
                        starting and ending with a letter or digit";
    if value.len() <= 253 && value.split('.').all(is_dns_label) { Ok(()) } else { Err(RULE) }
}

fn is_dns_label(value: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if inner(first) && inner(last))
        && bytes.iter().all(|&b| inner(b) || b == b'-')
}

/// A label key: an optional DNS subdomain and `/`, then at most 63 letters, digits, `-`, `_` or `.`.
pub(crate) fn check_label_key(key: &str) -> Result<(), &'static str> {
    const RULE: &str = "must be a label key: an optional DNS-1123 prefix and '/', then 1 to 63 letters, digits, '-', \
                        '_' or '.', starting and ending with a letter or digit";
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_ok = prefix.is_none_or(|prefix| check_dns_subdomain(prefix).is_ok());
    if prefix_ok && !name.is_empty() && check_label_value(name).is_ok() { Ok(()) } else { Err(RULE) }
}

/// A label value: empty, or at most 63 letters, digits, `-`, `_` or `.`, starting and ending with a letter or digit.
pub(crate) fn check_label_value(value: &str) -> Result<(), &'static str> {
    const RULE: &str = "must be a label value: at most 63 letters, digits, '-', '_' or '.', starting and ending with \
                        a letter or digit";
    let bytes = value.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().flatten().all(u8::is_ascii_alphanumeric);
    let inner = bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b));
    if value.len() <= 63 && ends && inner { Ok(()) } else { Err(RULE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_id() -> RunId {
        RunId::parse("20260821-142233-9f3a1c0b7e2d4a55").unwrap()
    }

    #[test]
    fn r3_prefix_is_cut_and_the_run_id_never() {
        let id = run_id();
        assert_eq!(run_scoped("aicr", &id), "aicr-20260821-142233-9f3a1c0b7e2d4a55");
        assert_eq!(run_scoped("", &id), id.as_str());
        let long = run_scoped(&"a".repeat(80), &id);
        assert_eq!(long.len(), 63);
        assert!(long.ends_with("-20260821-142233-9f3a1c0b7e2d4a55"));
    }

    #[test]
    fn r3_cut_prefix_loses_its_trailing_dashes_and_dots() {
        let id = run_id();
        let prefix = format!("{}-.-.{}", "a".repeat(26), "b".repeat(40));
        assert_eq!(run_scoped(&prefix, &id), format!("{}-{id}", "a".repeat(26)));
        assert_eq!(run_scoped("-.-", &id), id.as_str());
    }

    #[test]
    fn r3_a_run_id_of_63_characters_leaves_no_room_for_a_prefix() {
        let id = RunId::parse(&"r".repeat(63)).unwrap();
        assert_eq!(run_scoped("aicr", &id), id.as_str());
    }

    #[test]
    fn r3_an_invalid_prefix_is_refused_with_flag_value_and_name() {
        for prefix in ["Upper", "under_score", "-lead", ".dot", "a..b", "sp ace", "ä"] {
            let error = checked("--job-name", prefix, &run_id()).unwrap_err().to_string();
            assert!(error.contains("--job-name") && error.contains(&format!("\"{prefix}\"")), "{error}");
            assert!(error.contains("9f3a1c0b7e2d4a55"), "the resulting name is shown: {error}");
        }
        assert!(checked("--job-name", "team.a-b", &run_id()).is_ok());
    }

    #[test]
    fn r37_staging_name_gives_back_its_run() {
        let name = staging_config_map_name(&run_id());
        assert_eq!(name, "aicr-agent-snapshot-20260821-142233-9f3a1c0b7e2d4a55");
        assert_eq!(runs_of_staging_config_map(&name).collect::<Vec<_>>(), [run_id()]);
        for other in
            ["aicr-agent-snapshot", "aicr-agent-snapshot-", "aicr-agent-snapshot-Up", "aicr-agent-x", "other-x"]
        {
            assert_eq!(runs_of_staging_config_map(other).next(), None, "{other}");
        }
    }

    #[test]
    fn r37_staging_name_gives_back_its_run_where_the_prefix_was_cut() {
        for length in 1..62 {
            let id = RunId::parse(&"r".repeat(length)).unwrap();
            let name = staging_config_map_name(&id);
            assert_eq!(runs_of_staging_config_map(&name).next(), Some(id), "{name}");
        }
        let id = RunId::parse(&format!("agent-{}", "r".repeat(52))).unwrap();
        assert!(runs_of_staging_config_map(&staging_config_map_name(&id)).any(|run| run == id));
    }

    #[test]
    fn label_keys_and_values_follow_the_servers_rules() {
        for key in ["a", "nvidia.com/gpu.present", "A_b", "x/y"] {
            assert!(check_label_key(key).is_ok(), "{key}");
        }
        for key in ["", "/x", "x/", "-a", "a b", "a/b/c", "Up.Per/x"] {
            assert!(check_label_key(key).is_err(), "{key}");
        }
        assert!(check_label_value("").is_ok());
        assert!(check_label_value("-x").is_err());
    }
}
