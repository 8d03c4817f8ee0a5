//! Runs the real binary as a person would, in a home directory of its own.
//!
//! ```ignore
//! let home = Home::new().kubeconfig(&bed.kubeconfig(&user, None));
//! home.aicr(["snapshot", "-n", "gpu"]).run().await.code(0).stdout_is("");
//! ```

mod outcome;
mod running;

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use outcome::Outcome;
pub(crate) use running::Running;

/// No command of a test may take longer: any hang is a bug.
const DEADLINE: Duration = Duration::from_mins(2);

/// Held while a process is started. A new terminal is inheritable for a moment,
/// and a child that got it by accident would keep it open.
pub(crate) fn spawning() -> MutexGuard<'static, ()> {
    static SPAWNING: Mutex<()> = Mutex::new(());
    SPAWNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a command that no test's terminal may leak into, and waits for what it says.
pub(crate) fn output_of(command: &mut std::process::Command) -> std::io::Result<std::process::Output> {
    let child = {
        let _spawning = spawning();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?
    };
    child.wait_with_output()
}

static PLUGIN: OnceLock<PathBuf> = OnceLock::new();

/// The plugin that commands run: the one that cargo has built for the tests.
pub(crate) fn plugin() -> &'static Path {
    PLUGIN.get_or_init(|| env!("CARGO_BIN_EXE_kubectl-aicr").into())
}

/// Has commands run another one, from the start.
pub(crate) fn use_plugin(path: PathBuf) {
    PLUGIN.set(path).expect("no command has run yet");
}

/// A home directory, which several commands may share one after the other.
#[derive(Clone)]
pub(crate) struct Home {
    dir: Arc<TempDir>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: Arc::new(tempfile::tempdir().unwrap()) }
    }

    /// Makes this the kubeconfig file that kubectl finds without being told.
    pub(crate) fn kubeconfig(self, text: &str) -> Self {
        self.write(".kube/config", text);
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where the plugin keeps its ledger.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Writes a file below the home directory.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a program below the home directory.
    pub(crate) fn write_program(&self, name: &str, text: &str) -> PathBuf {
        // A child that starts meanwhile would hold the open file for a moment, and a busy file cannot be run.
        let _alone = spawning();
        let path = self.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Reads a file below the home directory.
    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The plugin with these arguments.
    pub(crate) fn aicr<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Invocation {
        self.program(plugin().to_str().expect("a path in UTF-8"), args)
    }

    /// Any program in this home; the plugin and the pinned kubectl stand on its `PATH`.
    pub(crate) fn program<A: AsRef<OsStr>>(&self, name: &str, args: impl IntoIterator<Item = A>) -> Invocation {
        let kubectl = super::built::kubectl();
        let folders = [plugin(), &kubectl].map(|file| file.parent().unwrap());
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = folders.map(Path::to_owned).into_iter().chain(std::env::split_paths(&inherited));
        Invocation {
            program: name.to_owned(),
            args: args.into_iter().map(|arg| arg.as_ref().to_owned()).collect(),
            env: vec![
                ("HOME".into(), self.path().into()),
                ("PATH".into(), std::env::join_paths(path).unwrap()),
                ("KUBECTL_AICR_STATE_DIR".into(), self.state_dir().into()),
            ],
            cwd: self.path().to_owned(),
            input: Input::Null,
            terminal: Terminal::None,
            reads_stderr: true,
            deadline: DEADLINE,
            home: self.clone(),
        }
    }
}

/// What a command reads.
enum Input {
    /// `/dev/null`, which is also what a closed stdin becomes.
    Null,
    Text(String),
    /// A pipe on which nothing comes until the test types it.
    Open,
}

/// Which of a command's streams are a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminal {
    None,
    All,
    /// As with `> file`.
    AllButStdout,
}

/// A command that is not started yet. It inherits nothing from the environment.
pub(crate) struct Invocation {
    program: String,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    input: Input,
    terminal: Terminal,
    reads_stderr: bool,
    deadline: Duration,
    home: Home,
}

impl Invocation {
    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Lets another program, which has these arguments before the command, start it.
    pub(crate) fn under<A: AsRef<OsStr>>(mut self, launcher: impl IntoIterator<Item = A>) -> Self {
        let words = launcher.into_iter().map(|word| word.as_ref().to_owned()).chain([self.program.into()]);
        self.args.splice(0..0, words);
        self.program = self.args.remove(0).into_string().expect("a program's name in UTF-8");
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key.into(), value.as_ref().to_owned()));
        self
    }

    /// Finds programs in this folder before any other.
    pub(crate) fn on_path(mut self, folder: &Path) -> Self {
        let path = self.env.iter_mut().find(|(name, _)| name == "PATH").expect("a command has a PATH");
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path.1));
        path.1 = std::env::join_paths(folders.collect::<Vec<_>>()).unwrap();
        self
    }

    /// Takes away even one of the few variables that a command has here.
    pub(crate) fn without_env(mut self, key: &str) -> Self {
        self.env.retain(|(name, _)| name != key);
        self
    }

    /// The working directory, which is else the home directory.
    pub(crate) fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = dir.into();
        self
    }

    /// What stands on stdin, which is else empty.
    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.input = Input::Text(text.to_owned());
        self
    }

    /// Leaves stdin open with nothing on it.
    pub(crate) fn stdin_open(mut self) -> Self {
        self.input = Input::Open;
        self
    }

    /// Leaves stderr a pipe that is open and that nobody reads.
    pub(crate) fn stderr_unread(mut self) -> Self {
        self.reads_stderr = false;
        self
    }

    /// Runs on a terminal. What it shows comes as stderr.
    pub(crate) fn terminal(mut self) -> Self {
        self.terminal = Terminal::All;
        self
    }

    /// Runs on a terminal, with stdout going elsewhere.
    pub(crate) fn terminal_but_stdout(mut self) -> Self {
        self.terminal = Terminal::AllButStdout;
        self
    }

    /// Panics if it takes longer than this, with all that was said.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end.
    pub(crate) async fn run(self) -> Outcome {
        self.spawn().wait().await
    }

    /// Starts it. It is killed if the test forgets it.
    pub(crate) fn spawn(self) -> Running {
        let _alone = spawning();
        // What this process ignores its children ignore too, as a hangup under nohup; what it handles they do not.
        let _handled = signal(SignalKind::hangup()).unwrap();
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(self.env.iter().cloned());
        command.current_dir(&self.cwd).kill_on_drop(true);
        let line = format!("{} {}", self.program, self.args.join(OsStr::new(" ")).display());
        if self.terminal == Terminal::None {
            let stdin = if matches!(self.input, Input::Null) { Stdio::null() } else { Stdio::piped() };
            command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
            let stdin = child.stdin.take();
            let unread = if self.reads_stderr { None } else { child.stderr.take() };
            let running = Running::piped(line, child, unread, self.deadline, self.home);
            return match (self.input, stdin) {
                (Input::Text(text), Some(stdin)) => running.fed(stdin, text),
                (Input::Open, Some(stdin)) => running.typed(stdin),
                _ => running,
            };
        }
        command.env("TERM", "xterm-256color");
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(50, 160)).unwrap();
        let mut command = pty_process::Command::from(command);
        if self.terminal == Terminal::AllButStdout {
            command = command.stdout(Stdio::piped());
        }
        let child = command.spawn(pts).unwrap_or_else(|error| panic!("{line}: {error}"));
        Running::on_terminal(line, child, pty, self.deadline, self.home)
    }
}
