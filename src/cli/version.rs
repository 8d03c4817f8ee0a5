//! `kubectl aicr version` and `--version`: which program this is, and which agent it runs.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::agent::config::DEFAULT_IMAGE;
use crate::agent::manifests::text;
use crate::deliver::to_stdout;
use crate::error::Error;

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit that the program was built from; `build.rs` knows it inside a checkout.
const COMMIT: &str = match option_env!("KUBECTL_AICR_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What `version` takes.
#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// How the version is shown [default: as lines]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

/// Shows the version. Contacts no cluster.
pub(crate) fn run(args: &VersionArgs) -> Result<(), Error> {
    let facts = json!({ "clientVersion": VERSION, "gitCommit": COMMIT, "agentImage": DEFAULT_IMAGE });
    let text = match args.output {
        None => format!("Client Version: {}\n", long()),
        Some(Format::Json) => format!("{facts:#}\n"),
        Some(Format::Yaml) => text::yaml(&facts),
    };
    to_stdout(text.as_bytes())
}

/// What `-V` says after the program's name.
pub(crate) fn short() -> String {
    format!("{VERSION} ({COMMIT})")
}

/// What `--version` says after the program's name.
pub(crate) fn long() -> String {
    format!("{VERSION}\nGit Commit: {COMMIT}\nAgent Image: {DEFAULT_IMAGE}")
}
