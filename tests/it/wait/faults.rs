//! Every list, watch and log request of a wait broken in every way, at each occurrence, and for as long as the Job runs.
//!
//! A sample in which each way occurs once, and each request several times, runs with the other tests. The whole runs with
//!
//! ```sh
//! KUBECTL_AICR_MATRIX=whole cargo test --test it wait::faults -- --nocapture
//! ```
//!
//! in about half an hour, and with any other text, the points whose description holds it.

use std::{
    any::Any,
    env, fmt,
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, stream};

use super::{EVENTS, JOBS, LOG, PODS, agent_lines, job_completes, lines_of, list, watch};
use crate::support::{
    bed::Bed,
    proxy::{Action, End, Fault, Limit, Proxy, Status, When, after, answer, before, cut, get},
    scene::Scene,
};

/// Runs at a time. They are idle for most of their time.
const AT_ONCE: usize = 4;

/// Lines of the agent, one every 300 ms: a run in which each request occurs three times if it has to.
const LINES: usize = 8;

/// How long a stream lasts that has to occur again.
const STRETCH: Limit = Limit::Time(Duration::from_millis(300));

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    List(&'static str, &'static str),
    Watch(&'static str, &'static str),
    Log,
}

const TARGETS: [Target; 9] = [
    Target::List(JOBS, ""),
    Target::Watch(JOBS, ""),
    Target::List(PODS, ""),
    Target::Watch(PODS, ""),
    Target::List(EVENTS, "kind%3DJob"),
    Target::Watch(EVENTS, "kind%3DJob"),
    Target::List(EVENTS, "kind%3DPod"),
    Target::Watch(EVENTS, "kind%3DPod"),
    Target::Log,
];

impl Target {
    fn requests(self) -> When {
        match self {
            Self::List(path, about) => list(path).query(about),
            Self::Watch(path, about) => watch(path).query(about),
            Self::Log => get(LOG),
        }
    }

    /// Has the request occur more than once.
    fn recur(self, proxy: &Proxy) {
        let (stream, end) = match self {
            Self::List(path, about) => (watch(path).query(about), End::Error(Status::expired())),
            Self::Watch(..) | Self::Log => (self.requests(), End::Close),
        };
        proxy.on(stream, cut(STRETCH, end));
    }
}

/// Which of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Nth(usize),
    /// Each one until the Job has completed.
    WhileTheJobRuns,
}

const WHICH: [Which; 4] = [Which::WhileTheJobRuns, Which::Nth(1), Which::Nth(2), Which::Nth(3)];

/// One way to break a request.
#[derive(Clone, Debug)]
struct Way {
    action: Action,
    applies: fn(Target) -> bool,
}

fn ways() -> Vec<Way> {
    let statuses = [
        Status::unauthorized(),
        Status::forbidden(),
        Status::expired(),
        Status::too_many_requests(1),
        Status::internal_error(),
        Status::unavailable(),
        Status::timeout(),
        Status::too_large_resource_version(),
        Status::plain(429, "Too many requests").retry_after(1),
        Status::plain(502, "<html>bad gateway</html>"),
    ];
    let faults = [Fault::Drop, Fault::Reset, Fault::Hang, Fault::Delay(Duration::from_millis(700))];
    let everything =
        statuses.into_iter().map(answer).chain(faults.into_iter().flat_map(|fault| [before(fault), after(fault)]));
    let ends = [End::Close, End::Drop, End::Reset, End::Stall];
    let cuts = |limits: &[Limit]| -> Vec<Action> {
        limits.iter().flat_map(|limit| ends.iter().map(|end| cut(*limit, end.clone()))).collect()
    };
    let of_lists = cuts(&[Limit::Bytes(0), Limit::Bytes(100)]);
    let of_logs = cuts(&[Limit::Bytes(0), Limit::Bytes(120), Limit::Lines(2)]);
    let mut of_watches = cuts(&[Limit::Bytes(0), Limit::Bytes(300), Limit::Lines(1)]);
    for status in [Status::expired(), Status::too_large_resource_version(), Status::internal_error()] {
        of_watches.extend([Limit::Bytes(0), Limit::Lines(1)].map(|limit| cut(limit, End::Error(status.clone()))));
    }
    let way = |applies: fn(Target) -> bool| move |action| Way { action, applies };
    everything
        .map(way(|_| true))
        .chain(of_lists.into_iter().map(way(|target| matches!(target, Target::List(..)))))
        .chain(of_watches.into_iter().map(way(|target| matches!(target, Target::Watch(..)))))
        .chain(of_logs.into_iter().map(way(|target| target == Target::Log)))
        .collect()
}

/// One run of the matrix.
#[derive(Clone, Debug)]
struct Point {
    target: Target,
    which: Which,
    action: Action,
}

impl Point {
    /// What else goes over an HTTP/2 connection is lost as well.
    fn resets_connections(&self) -> bool {
        matches!(self.action, Action::Fail(_, Fault::Reset) | Action::Cut(_, End::Reset))
    }

    /// Logs that end well and too soon until after the agent's end are those of an agent that says no more.
    fn can_be_told(&self) -> bool {
        let ends_well = matches!(self.action, Action::Cut(_, End::Close));
        self.target != Target::Log || self.which != Which::WhileTheJobRuns || !ends_well
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.target, self.which, self.action)
    }
}

/// The points of each way.
fn points() -> Vec<Vec<Point>> {
    let of = |way: Way| {
        let targets = TARGETS.into_iter().filter(|target| (way.applies)(*target));
        let points = targets.flat_map(|target| WHICH.map(|which| Point { target, which, action: way.action.clone() }));
        points.filter(Point::can_be_told).collect()
    };
    ways().into_iter().map(of).collect()
}

/// One point of each way, so that targets and occurrences take turns.
fn sample(points: Vec<Vec<Point>>) -> Vec<Point> {
    let turn = |(number, mut of_way): (usize, Vec<Point>)| of_way.swap_remove(number * 7 % of_way.len());
    points.into_iter().enumerate().map(turn).collect()
}

#[test]
fn the_sample_has_each_way_and_each_target() {
    let sample = sample(points());
    assert_eq!(sample.len(), ways().len());
    for target in TARGETS {
        let count = sample.iter().filter(|point| point.target == target).count();
        assert!(count > 1, "{target:?}: {count} points");
    }
    for which in WHICH {
        assert!(sample.iter().filter(|point| point.which == which).count() > 3, "{which:?}");
    }
}

#[tokio::test]
async fn r20_r23_whatever_request_breaks_the_run_succeeds_and_shows_each_line_once() {
    let points = match env::var("KUBECTL_AICR_MATRIX").as_deref() {
        Ok("whole") => points().concat(),
        Ok(part) => points().concat().into_iter().filter(|point| point.to_string().contains(part)).collect(),
        Err(_) => sample(points()),
    };
    let count = points.len();
    let failures: Vec<String> = stream::iter(points)
        .enumerate()
        .map(|(number, point)| async move {
            let proxy = Proxy::before(Bed::shared().await);
            // One in four has a connection for each request.
            let proxy = if number % 4 == 3 { proxy.http1_only() } else { proxy }.start().await;
            let start = Instant::now();
            let outcome = AssertUnwindSafe(holds(&point, &proxy)).catch_unwind().await;
            eprintln!(
                "{:5.1} s {} {point}",
                start.elapsed().as_secs_f32(),
                if outcome.is_ok() { "holds" } else { "FAILS" }
            );
            outcome.err().map(|panic| format!("{point}: {}\n{}", text_of(&*panic), proxy.transcript()))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    eprintln!("{count} points");
    assert!(failures.is_empty(), "{} of {count} points failed:\n{}", failures.len(), failures.join("\n\n"));
}

async fn holds(point: &Point, proxy: &Proxy) {
    let scene = Scene::behind("matrix", proxy).await;
    let requests = point.target.requests();
    let broken = match point.which {
        Which::Nth(k) => proxy.on(requests.nth(k), point.action.clone()),
        Which::WhileTheJobRuns => proxy.on(requests, point.action.clone()),
    };
    if point.which != Which::Nth(1) {
        point.target.recur(proxy);
    }
    let script = format!("drip-{LINES}-300ms");
    let run = scene.snapshot(&script).args(["--request-timeout", "5s", "--timeout", "90s"]);
    let running = run.deadline(Duration::from_secs(110)).spawn();
    let lift = async {
        if point.which == Which::WhileTheJobRuns {
            job_completes(&scene).await;
            broken.lift();
        }
        std::future::pending::<()>().await;
    };
    let ran = tokio::select! {
        ran = running.wait() => ran,
        () = lift => unreachable!("it only lifts"),
    };
    assert!(broken.hits() > 0, "no request came to be broken");
    if point.resets_connections() && ran.stderr().contains("error: cannot create Job ") {
        // The first watches open beside the Job's create, which must not be sent again when its connection is lost (R6).
        ran.code(6);
    } else {
        ran.code(0).stdout_is(&scene.document());
        assert_eq!(agent_lines(&ran), lines_of(&scene, LINES), "{ran}");
    }
    scene.assert_clean().await;
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
