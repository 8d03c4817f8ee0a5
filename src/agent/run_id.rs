//! The run ID, and the invocation ID made by the same generator (R1, R2).

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::names;
use crate::error::Invalid;

/// Identifies one run. Several invocations may share it on purpose (pinned CI runs).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// Takes a run ID that the caller chose.
    ///
    /// # Errors
    /// [`Invalid`] if it is not a DNS-1123 label of at most 63 characters: it becomes a label value and the end of
    /// every object name.
    pub fn parse(value: &str) -> Result<Self, Invalid> {
        names::check_dns_label(value).map_err(|rule| Invalid::new("--run-id", value, rule))?;
        Ok(Self(value.to_owned()))
    }

    /// The run ID as it stands in names and labels.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RunId {
    type Error = Invalid;

    fn try_from(value: String) -> Result<Self, Invalid> {
        Self::parse(&value)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

/// Identifies one invocation. Only the deployer's constructor makes one, so that carrying it proves who created an
/// object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct InvocationId(String);

impl InvocationId {
    pub(crate) fn generate() -> Self {
        Self(stamp())
    }

    /// Reads back what an earlier invocation recorded about itself.
    pub(crate) fn recorded(value: String) -> Self {
        Self(value)
    }

    /// The invocation ID as it stands in labels.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A new run ID: `YYYYMMDD-HHMMSS-` in UTC and 16 hex digits from the operating system's random source.
#[must_use]
pub fn generate() -> RunId {
    RunId(stamp())
}

fn stamp() -> String {
    let mut random = [0_u8; 8];
    #[expect(
        clippy::expect_used,
        reason = "without the operating system's random source no claim of ownership can be made"
    )]
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    let mut stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S-").to_string();
    for byte in random {
        // Writing to a String cannot fail.
        let _ = write!(stamp, "{byte:02x}");
    }
    stamp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_generated_run_id_has_the_documented_shape() {
        let id = generate();
        let text = id.as_str();
        assert_eq!(text.len(), 32, "{text}");
        let parts: Vec<&str> = text.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 6, 16]);
        assert!(parts[..2].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit())));
        assert!(parts[2].bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert_eq!(RunId::parse(text), Ok(id));
    }

    #[test]
    fn r1_two_generated_run_ids_differ() {
        assert_ne!(generate(), generate());
    }

    #[test]
    fn r1_a_chosen_run_id_must_be_a_dns_label() {
        for good in ["a", "ci-4711", &"x".repeat(63)] {
            assert!(RunId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "UPPER", "under_score", "-lead", "trail-", "dot.ted", "späße", &"x".repeat(64)] {
            assert!(RunId::parse(bad).is_err(), "{bad}");
        }
    }
}
