//! Tells the program which commit it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    // Naming files keeps cargo from watching all of them.
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(commit) = own_commit() {
        println!("cargo::rustc-env=KUBECTL_AICR_COMMIT={commit}");
    }
}

/// The commit of the checkout whose root this is. Sources unpacked inside another project's checkout have none.
fn own_commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // Every commit, checkout and rebase adds to it. Naming a file that is missing would make every build look changed.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| root.join(path).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
