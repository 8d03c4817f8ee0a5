//! Where this user's ledgers are (R35).

use std::path::PathBuf;

use crate::agent::config::LedgerPlace;

/// Environment variable that names the directory.
const OVERRIDE: &str = "KUBECTL_AICR_STATE_DIR";

/// The user's state directory, or the nearest that the platform has.
pub(crate) fn directory() -> Option<PathBuf> {
    match std::env::var_os(OVERRIDE) {
        Some(directory) if !directory.is_empty() => Some(directory.into()),
        _ => Some(dirs::state_dir().or_else(dirs::data_local_dir)?.join("kubectl-aicr")),
    }
}

/// The ledgers of one cluster's runs.
pub(crate) fn ledger_place(server: &str) -> Option<LedgerPlace> {
    Some(LedgerPlace { directory: directory()?, server: server.parse().ok()? })
}
