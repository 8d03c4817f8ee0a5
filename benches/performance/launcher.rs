//! A process that starts one other and tells what that has used.
//!
//! The kernel counts the memory of the process that starts a program as that program's too, up to the moment at which it
//! begins. So what starts it here is this program again, with nothing in it.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use wait4::Wait4 as _;

use super::support::cli::{Invocation, Outcome};

/// The argument with which this program is the launcher. A file for what it has to tell follows, and the command.
pub(crate) const FLAG: &str = "--launch";

/// What a command has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// The most memory that was its at one time, in bytes.
    pub(crate) peak: u64,
}

/// Runs a command to its end.
pub(crate) async fn launch(command: Invocation) -> (Outcome, Used) {
    let told = tempfile::NamedTempFile::new().unwrap();
    let this = std::env::current_exe().unwrap();
    let ran = command.under([this.as_os_str(), FLAG.as_ref(), told.path().as_os_str()]).run().await;
    let told = fs::read_to_string(told.path()).unwrap();
    let (seconds, peak) = told.split_once(' ').unwrap_or_else(|| panic!("{ran}\nit could not be launched"));
    let used = Used { seconds: seconds.parse().unwrap(), peak: peak.parse().unwrap() };
    (ran, used)
}

/// Launches what the arguments say.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (file, program) = (arguments.next().unwrap(), arguments.next().unwrap());
    let started = Instant::now();
    let ended = Command::new(program).args(arguments).spawn().unwrap().wait4().unwrap();
    let (seconds, peak) = (started.elapsed().as_secs_f64(), ended.rusage.maxrss);
    fs::write(file, format!("{seconds} {peak}")).unwrap();
    ExitCode::from(u8::try_from(ended.status.code().unwrap_or(255)).unwrap_or(255))
}
