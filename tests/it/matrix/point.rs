//! The points of the matrix.

use std::fmt;

use super::disturbance::Disturbance;
use super::request::{self, CLEAN, Course, FAILING, Request};

/// One request of a course, and what befalls it.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) course: Course,
    pub(super) request: Request,
    pub(super) disturbance: Disturbance,
    /// The proxy offers HTTP/1.1 alone, so that requests have connections of their own.
    pub(super) http1: bool,
}

impl Point {
    pub(super) fn over_http1(self) -> Self {
        Self { http1: true, ..self }
    }
}

/// Each request with each disturbance that may befall it. A failing run goes as a clean one does until its Job is there.
pub(super) async fn points() -> Vec<Point> {
    let (clean, failing) = (request::of(CLEAN).await, request::of(FAILING).await);
    let ending = failing.into_iter().skip_while(|request| !request.creates_job()).skip(1);
    let requests = clean.into_iter().map(|request| (CLEAN, request)).chain(ending.map(|request| (FAILING, request)));
    let of_request = |(course, request): (Course, Request)| {
        let late = request.may_come_late().then_some(Disturbance::OF_WRITES).into_iter().flatten();
        let all = Disturbance::ANYWHERE.into_iter().chain(late);
        all.map(move |disturbance| Point { course, request: request.clone(), disturbance, http1: false })
    };
    requests.flat_map(of_request).collect()
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = if self.http1 { " over HTTP/1.1" } else { "" };
        write!(f, "{} of {}: {}{over}", self.request, self.course.script, self.disturbance)
    }
}
