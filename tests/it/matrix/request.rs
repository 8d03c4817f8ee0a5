//! The requests of a clean run, addressed so that another run's can be found.

use std::collections::BTreeMap;
use std::fmt;

use crate::support::{
    bed::Bed,
    proxy::{Entry, Proxy, When, request},
    scene::Scene,
};

/// What stands for the run ID, which is also the namespace's name.
const ID: &str = "RUN";

/// What the agent does in an undisturbed run, and how that run ends. The agent always takes long enough for the watches
/// to open, and ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) script: &'static str,
    code: i32,
}

/// The document is delivered.
pub(super) const CLEAN: Course = Course { script: "slow-300ms", code: 0 };

/// The agent fails after it has written: nobody reads the document, and cleanup has to look for it (R32).
pub(super) const FAILING: Course = Course { script: "slow-300ms_fail_document", code: 10 };

/// The n-th request of its kind: requests that are sent together arrive in no fixed order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    method: String,
    path: String,
    is_stream: bool,
    pub(super) is_write: bool,
    nth: usize,
}

/// The requests of an undisturbed run, in their order.
pub(super) async fn of(course: Course) -> Vec<Request> {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("undisturbed", &proxy).await;
    scene.snapshot(course.script).run().await.code(course.code);
    scene.assert_clean().await;
    let mut seen = BTreeMap::<Request, usize>::new();
    let requests = proxy.requests();
    requests
        .iter()
        .map(|entry| {
            let kind = Request::of_kind(entry, &scene.run_id);
            let nth = seen.entry(kind.clone()).or_default();
            *nth += 1;
            Request { nth: *nth, ..kind }
        })
        .collect()
}

impl Request {
    fn of_kind(entry: &Entry, run_id: &str) -> Self {
        let path = entry.path.replace(run_id, ID);
        // A pod's name ends at random.
        let path = match path.split_once("/pods/") {
            Some((before, pod)) => {
                let rest = pod.find('/').map_or("", |slash| &pod[slash..]);
                format!("{before}/pods/*{rest}")
            }
            None => path,
        };
        Self {
            method: entry.method.to_string(),
            path,
            is_stream: entry.is_stream(),
            is_write: entry.is_write(),
            nth: 0,
        }
    }

    /// The same request of another run.
    pub(super) fn when(&self, run_id: &str) -> When {
        let (is_stream, is_write) = (self.is_stream, self.is_write);
        request(&self.method, &self.path.replace(ID, run_id))
            .matching(move |entry| entry.is_stream() == is_stream && entry.is_write() == is_write)
            .nth(self.nth)
    }

    /// Whether it creates the Job.
    pub(super) fn creates_job(&self) -> bool {
        self.is_write && self.method == "POST" && self.path.ends_with("/jobs")
    }

    /// Whether it asks for an object to be created or deleted, so that it may still be committed when its client is gone.
    pub(super) fn may_come_late(&self) -> bool {
        self.is_write && matches!(self.method.as_str(), "POST" | "DELETE")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = if self.is_stream { " (stream)" } else { "" };
        write!(f, "{} {}{stream} #{}", self.method, self.path, self.nth)
    }
}
