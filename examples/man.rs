//! Writes the manual pages into a directory: `cargo run --example man -- DIR`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: man DIR");
        return ExitCode::from(2);
    };
    // What the short help leaves out is told here.
    let command = kubectl_aicr::cli::command().mut_args(|arg| arg.hide_short_help(false));
    let written = std::fs::create_dir_all(&directory).and_then(|()| clap_mangen::generate_to(command, &directory));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write manual pages to {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
