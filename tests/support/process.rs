//! Processes and directories that do not outlive the test process, even when
//! it is killed with SIGKILL and runs no code of its own any more.
//!
//! Each is guarded by a small shell of its own, which blocks on a pipe from the
//! test process: when the test process ends, in whatever way, the kernel closes
//! the pipe and the shell cleans up. The shells lead process groups of their
//! own, so that a Ctrl-C in the terminal does not take them before their work.

use std::{
    ffi::OsStr,
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use tempfile::TempDir;

/// Runs its arguments until they end or standard input does.
const WATCHDOG: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
{ read -r line <&3; kill -KILL $child; } 2>/dev/null &
guard=$!
exec 3<&-
wait $child
status=$?
kill $guard 2>/dev/null
wait $guard 2>/dev/null
exit $status
"#;

/// Removes a directory when standard input ends. Processes that are being
/// killed at the same moment may still write into it, hence the repetition.
const JANITOR: &str = r#"
read -r line
tries=0
while rm -rf "$1"; [ -e "$1" ] && [ $tries -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
"#;

/// A background process, killed when this value is dropped or the test process
/// is gone.
pub(crate) struct Daemon {
    name: &'static str,
    log: PathBuf,
    shell: Child,
}

impl Daemon {
    /// Starts a program whose output goes to `DIR/NAME.log`.
    pub(crate) fn spawn<S: AsRef<OsStr>>(
        name: &'static str,
        program: &Path,
        args: impl IntoIterator<Item = S>,
        dir: &Path,
    ) -> Self {
        let log = dir.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).expect("log file opened");
        let _alone = super::cli::spawning();
        let shell = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("log file shared"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .expect("sh started");
        Self { name, log, shell }
    }

    /// Whether the process has ended because its port was taken.
    pub(crate) fn lost_its_port(&mut self) -> bool {
        self.status().is_some() && self.log_tail().contains("address already in use")
    }

    /// Panics, with the end of the log, if the process has ended.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.status() {
            panic!("{} ended, {status}\n{}", self.name, self.log_tail());
        }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.shell.try_wait().expect("a child can be waited for")
    }

    fn log_tail(&self) -> String {
        const TAIL: i64 = 4096;
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(&self.log) {
            // A log shorter than the tail is read from its start.
            let _ = file.seek(SeekFrom::End(-TAIL));
            let _ = file.read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text);
        format!("--- end of {}.log ---\n{text}", self.name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A temporary directory that is removed with this value or with the test process.
pub(crate) struct Scratch {
    dir: TempDir,
    janitor: Child,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("kubectl-aicr-bed-").tempdir().expect("temporary directory");
        let _alone = super::cli::spawning();
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh started");
        Self { dir, janitor }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}
