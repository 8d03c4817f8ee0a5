//! What a command said and how it ended, and what a test holds about that.

use std::{fmt, os::unix::process::ExitStatusExt, process::ExitStatus};

use rustix::process::Signal;
use serde_json::Value;

/// A command that has ended. Every assertion that fails shows all of it.
pub(crate) struct Outcome {
    line: String,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Outcome {
    pub(super) fn new(line: String, status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        Self { line, status, stdout, stderr }
    }

    /// The exit code; `None` if a signal ended it.
    pub(crate) fn status(&self) -> Option<i32> {
        self.status.code()
    }

    /// It ended by itself with this exit code.
    #[track_caller]
    pub(crate) fn code(&self, code: i32) -> &Self {
        self.holds(self.status.code() == Some(code), &format!("not exit code {code}"))
    }

    /// It was ended by this signal.
    #[track_caller]
    pub(crate) fn killed_by(&self, signal: Signal) -> &Self {
        self.holds(self.status.signal() == Some(signal.as_raw()), &format!("not killed by {signal:?}"))
    }

    #[track_caller]
    pub(crate) fn stdout_is(&self, text: &str) -> &Self {
        self.holds(self.stdout == text.as_bytes(), &format!("stdout is not {text:?}"))
    }

    #[track_caller]
    pub(crate) fn stdout_has(&self, text: &str) -> &Self {
        self.holds(self.stdout().contains(text), &format!("stdout lacks {text:?}"))
    }

    #[track_caller]
    pub(crate) fn stdout_lacks(&self, text: &str) -> &Self {
        self.holds(!self.stdout().contains(text), &format!("stdout has {text:?}"))
    }

    #[track_caller]
    pub(crate) fn stderr_is(&self, text: &str) -> &Self {
        self.holds(self.stderr == text.as_bytes(), &format!("stderr is not {text:?}"))
    }

    #[track_caller]
    pub(crate) fn stderr_has(&self, text: &str) -> &Self {
        self.holds(self.stderr().contains(text), &format!("stderr lacks {text:?}"))
    }

    #[track_caller]
    pub(crate) fn stderr_lacks(&self, text: &str) -> &Self {
        self.holds(!self.stderr().contains(text), &format!("stderr has {text:?}"))
    }

    /// Without escape sequences, lines ending as on a pipe.
    pub(crate) fn stdout(&self) -> String {
        text_of(&self.stdout)
    }

    /// Without escape sequences, lines ending as on a pipe.
    pub(crate) fn stderr(&self) -> String {
        text_of(&self.stderr)
    }

    /// As they came.
    pub(crate) fn stdout_bytes(&self) -> &[u8] {
        &self.stdout
    }

    /// As they came.
    pub(crate) fn stderr_bytes(&self) -> &[u8] {
        &self.stderr
    }

    #[track_caller]
    pub(crate) fn stdout_json(&self) -> Value {
        match serde_json::from_slice(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("{self}\nstdout is not JSON: {error}"),
        }
    }

    #[track_caller]
    fn holds(&self, is_so: bool, why: &str) -> &Self {
        assert!(is_so, "{self}\n{why}");
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.line, &self.stdout, &self.stderr)?;
        write!(f, "\n{}", self.status)
    }
}

/// A command with both of its outputs.
pub(super) fn show(f: &mut fmt::Formatter<'_>, line: &str, stdout: &[u8], stderr: &[u8]) -> fmt::Result {
    write!(f, "$ {line}\n--- stdout\n{}\n--- stderr\n{}\n---", shown(stdout), shown(stderr))
}

/// An output as far as a person reads it: of a long one the beginning and the end.
fn shown(bytes: &[u8]) -> String {
    const ENDS: usize = 40;
    let text = text_of(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let Some(hidden @ 1..) = lines.len().checked_sub(2 * ENDS) else {
        return text;
    };
    let (head, tail) = (lines[..ENDS].join("\n"), lines[ENDS + hidden..].join("\n"));
    format!("{head}\n[{hidden} lines left out]\n{tail}")
}

/// Without escape sequences, lines ending as on a pipe.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    anstream::adapter::strip_str(&text).to_string()
}
