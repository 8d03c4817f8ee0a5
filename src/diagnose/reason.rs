//! The reasons that there are, and how each is said.

use std::fmt;

use crate::diagnose::creation::Refusal;
use crate::diagnose::observed::Lost;

/// What keeps the agent from having finished, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// What it is. Equal for two diagnoses that a person would take for the same.
    pub(crate) reason: Reason,
    /// Whether it may pass without anyone's help, or is for the Job to judge.
    pub(crate) heals: bool,
    /// What most likely helps.
    pub(crate) next_step: String,
}

/// Objects are named as `Kind namespace/name`; messages are the cluster's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The Job stands there no more.
    JobLost { job: String, how: Lost, ttl: Option<i32> },
    /// The Job may not run yet: a queue or a person holds it back.
    Suspended { job: String, message: String },
    /// The Job ran into its own deadline. What held it up, if that is known.
    Deadline { job: String, message: String, last: Option<Box<Reason>> },
    /// The Job failed and nothing of its pod says why.
    JobFailed { job: String, reason: String, message: String },
    /// The API server lets the Job create no pod.
    PodRefused { job: String, refusal: Refusal, message: String },
    /// No node takes the pod.
    Unschedulable { pod: String, message: String },
    /// An image cannot be had.
    Image { pod: String, image: String, message: String },
    /// Something that a container needs before it starts cannot be had.
    NotStarted { pod: String, what: &'static str, message: String },
    /// A container's command could not be run.
    NotRunnable { pod: String, container: String, code: i32, message: String },
    /// A container ended badly.
    Crashed { pod: String, container: String, code: i32, message: String },
    /// A container needed more memory than it may have.
    OutOfMemory { pod: String, container: String, code: i32 },
    /// The pod had to leave its node.
    Evicted { pod: String, message: String },
    /// The pod had to make room for a more important one.
    Preempted { pod: String, message: String },
    /// The node is gone, is going, or no longer answers.
    NodeLost { pod: String, message: String },
    /// The node's kubelet did not take the pod.
    NodeRefused { pod: String, reason: String, message: String },
    /// Someone deleted the pod.
    PodDeleted { pod: String },
    /// The agent has ended well, but the pod has not: another container runs on.
    StillRunning { pod: String, container: String },
}

impl Diagnosis {
    /// Something that may pass, or that only the Job can call final.
    pub(super) fn passing(reason: Reason, next_step: impl Into<String>) -> Self {
        Self { reason, heals: true, next_step: next_step.into() }
    }

    /// A Job that stands there no more.
    pub(crate) fn of_lost(job: String, how: Lost, ttl: Option<i32>) -> Self {
        let next_step = match how {
            Lost::Deleted | Lost::Vanished => "find out what deletes Jobs in the namespace, then run again",
            Lost::Replaced => "leave --run-id out, so that the run has names of its own",
        };
        Self::lasting(Reason::JobLost { job, how, ttl }, next_step)
    }

    /// Something that stays as it is until a person changes it.
    pub(super) fn lasting(reason: Reason, next_step: impl Into<String>) -> Self {
        Self { reason, heals: false, next_step: next_step.into() }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobLost { job, how, ttl } => {
                write!(f, "{job} {how}")?;
                match (how, ttl) {
                    (Lost::Vanished, Some(ttl)) => {
                        write!(f, "; if it had finished, its TTL of {ttl}s may have run out")
                    }
                    _ => Ok(()),
                }
            }
            Self::Suspended { job, message } => write!(f, "{job} is suspended: {message}"),
            Self::Deadline { job, message, last } => {
                write!(f, "{job} ran into its deadline: {message}")?;
                last.as_ref().map_or(Ok(()), |last| write!(f, "; before that, {last}"))
            }
            Self::JobFailed { job, reason, message } => write!(f, "{job} has failed ({reason}): {message}"),
            Self::PodRefused { job, message, .. } => write!(f, "{job} can create no pod: {message}"),
            Self::Unschedulable { pod, message } => write!(f, "{pod} finds no node: {message}"),
            Self::Image { pod, image, message } => write!(f, "{pod} cannot get the image \"{image}\": {message}"),
            Self::NotStarted { pod, what, message } => write!(f, "{pod} {what}: {message}"),
            Self::NotRunnable { pod, container, code, message } => {
                write!(f, "{container} in {pod} could not be run (exit code {code}): {message}")
            }
            Self::Crashed { pod, container, code, message } => {
                write!(f, "{container} in {pod} ended with {}", Exit(*code))?;
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
            Self::OutOfMemory { pod, container, code } => {
                write!(f, "{container} in {pod} ran out of memory and was killed (exit code {code})")
            }
            Self::Evicted { pod, message } => write!(f, "{pod} was evicted: {message}"),
            Self::Preempted { pod, message } => write!(f, "{pod} was preempted: {message}"),
            Self::NodeLost { pod, message } => write!(f, "{pod} has lost its node: {message}"),
            Self::NodeRefused { pod, reason, message } => {
                write!(f, "{pod} was refused by its node ({reason}): {message}")
            }
            Self::PodDeleted { pod } => write!(f, "{pod} was deleted by someone else"),
            Self::StillRunning { pod, container } => {
                write!(
                    f,
                    "the agent in {pod} has ended well, but {container} runs on and keeps the Job from completing"
                )
            }
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "was deleted by someone else",
            Self::Vanished => "is gone",
            Self::Replaced => "was replaced by another Job of the same name",
        })
    }
}

/// An exit code, with the signal that it stands for.
struct Exit(i32);

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.0)?;
        match self.0 - 128 {
            2 => f.write_str(" (SIGINT)"),
            4 => f.write_str(" (SIGILL)"),
            6 => f.write_str(" (SIGABRT)"),
            7 => f.write_str(" (SIGBUS)"),
            8 => f.write_str(" (SIGFPE)"),
            9 => f.write_str(" (SIGKILL)"),
            11 => f.write_str(" (SIGSEGV)"),
            15 => f.write_str(" (SIGTERM)"),
            signal @ 1..=64 => write!(f, " (signal {signal})"),
            _ => Ok(()),
        }
    }
}
