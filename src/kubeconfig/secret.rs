//! Text that must not be shown.

use std::fmt;

use serde::Deserialize;

/// A token, password or key. It never appears in `Debug` output.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("<redacted>")
    }
}
