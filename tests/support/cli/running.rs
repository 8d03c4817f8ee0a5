//! A command that runs.

use std::{fmt, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin},
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{Home, Outcome};

/// A child of another test holds copies of our pipes from its fork until its
/// program runs, and as long the other end does not notice that we closed ours.
const SETTLE: Duration = Duration::from_millis(100);

/// A started command: can be watched, typed to and sent signals.
pub(crate) struct Running {
    line: String,
    child: Child,
    stdout: Capture,
    stderr: Capture,
    keyboard: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    deadline: Instant,
    /// The open end of a pipe that is not read.
    _unread: Option<ChildStderr>,
    /// Stays at least as long as the command.
    _home: Home,
}

impl Running {
    pub(super) fn piped(
        line: String,
        mut child: Child,
        unread: Option<ChildStderr>,
        deadline: Duration,
        home: Home,
    ) -> Self {
        Self {
            line,
            stdout: Capture::of(child.stdout.take()),
            stderr: Capture::of(child.stderr.take()),
            child,
            keyboard: None,
            deadline: Instant::now() + deadline,
            _unread: unread,
            _home: home,
        }
    }

    pub(super) fn on_terminal(
        line: String,
        mut child: Child,
        pty: pty_process::Pty,
        deadline: Duration,
        home: Home,
    ) -> Self {
        let (screen, keyboard) = pty.into_split();
        Self {
            line,
            stdout: Capture::of(child.stdout.take()),
            stderr: Capture::of(Some(screen)),
            child,
            keyboard: Some(Box::new(keyboard)),
            deadline: Instant::now() + deadline,
            _unread: None,
            _home: home,
        }
    }

    /// Writes `text` to stdin and closes it.
    pub(super) fn fed(self, mut stdin: ChildStdin, text: String) -> Self {
        tokio::spawn(async move {
            // A command may end without having read it.
            let _ = stdin.write_all(text.as_bytes()).await;
        });
        self
    }

    /// Leaves stdin to `keys`.
    pub(super) fn typed(mut self, stdin: ChildStdin) -> Self {
        self.keyboard = Some(Box::new(stdin));
        self
    }

    pub(crate) fn pid(&self) -> Pid {
        let id = self.child.id().expect("the command has not been waited for");
        Pid::from_raw(id.cast_signed()).unwrap()
    }

    /// Sends a signal; a command that has just ended takes no offence.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap_or_else(|error| self.fail(&format!("no signal sent: {error}")));
    }

    /// Types on the terminal or into the open stdin.
    pub(crate) async fn keys(&mut self, keys: &str) {
        let keyboard = self.keyboard.as_mut().expect("a terminal or an open stdin");
        keyboard.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Waits until this was said on stderr, or stands on the terminal.
    pub(crate) async fn wait_stderr_contains(&mut self, text: &str) {
        if !self.stderr.says(text, self.deadline).await {
            self.fail(&format!("stderr never had {text:?}"));
        }
    }

    /// Waits until this was said on stdout.
    pub(crate) async fn wait_stdout_contains(&mut self, text: &str) {
        if !self.stdout.says(text, self.deadline).await {
            self.fail(&format!("stdout never had {text:?}"));
        }
    }

    /// Goes away as the reader of stdout.
    pub(crate) async fn close_stdout(&mut self) {
        self.stdout.close().await;
    }

    /// Goes away as the reader of stderr.
    pub(crate) async fn close_stderr(&mut self) {
        self.stderr.close().await;
    }

    /// Closes the terminal's window.
    pub(crate) async fn hang_up(&mut self) {
        self.keyboard = None;
        self.stderr.close().await;
    }

    /// Waits for its end.
    pub(crate) async fn wait(mut self) -> Outcome {
        let Some(status) = self.ended().await else {
            // The child is killed as `self` is dropped.
            self.fail("still runs at its deadline");
        };
        Outcome::new(self.line, status, self.stdout.take(), self.stderr.take())
    }

    /// Kills it at once, as a lost node does.
    pub(crate) async fn kill(self) -> Outcome {
        self.signal(Signal::KILL);
        self.wait().await
    }

    async fn ended(&mut self) -> Option<ExitStatus> {
        let status = timeout_at(self.deadline, self.child.wait()).await.ok()?.unwrap();
        for capture in [&mut self.stdout, &mut self.stderr] {
            timeout_at(self.deadline, capture.is_over()).await.ok()?;
        }
        Some(status)
    }

    fn fail(&self, why: &str) -> ! {
        panic!("{self}\n{why}");
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::outcome::show(f, &self.line, &self.stdout.take(), &self.stderr.take())
    }
}

/// What a command says on one stream.
struct Capture {
    said: watch::Receiver<Vec<u8>>,
    reader: JoinHandle<()>,
}

impl Capture {
    /// Reads to the end; nothing if the stream is not ours.
    fn of(stream: Option<impl AsyncRead + Send + Unpin + 'static>) -> Self {
        let (sender, said) = watch::channel(Vec::new());
        let reader = tokio::spawn(async move {
            let Some(mut stream) = stream else {
                return;
            };
            let mut piece = [0; 8192];
            // A terminal ends with an error when the last process leaves it.
            while let Ok(n @ 1..) = stream.read(&mut piece).await {
                sender.send_modify(|said| said.extend_from_slice(&piece[..n]));
            }
        });
        Self { said, reader }
    }

    /// Waits for `text`; false if the stream ends without it, or too late.
    async fn says(&mut self, text: &str, deadline: Instant) -> bool {
        let has = |said: &Vec<u8>| super::outcome::text_of(said).contains(text);
        matches!(timeout_at(deadline, self.said.wait_for(has)).await, Ok(Ok(_)))
    }

    async fn is_over(&mut self) {
        // The sender goes when the reader is done, closed or not.
        while self.said.changed().await.is_ok() {}
    }

    async fn close(&mut self) {
        self.reader.abort();
        self.is_over().await;
        sleep(SETTLE).await;
    }

    fn take(&self) -> Vec<u8> {
        self.said.borrow().clone()
    }
}
