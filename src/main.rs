//! The binary: hands its arguments to the library and its exit code to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_aicr::cli::main(std::env::args_os())
}
