//! The crash-point matrix: whatever goes wrong, at whichever request of a run, everything that the run created is
//! deleted or listed, and nothing else is touched.
//!
//! The points are made from the requests of a clean run, and of one whose agent fails: each of them meets each disturbance
//! once. A spread sample runs with the other tests, and some of that over HTTP/1.1 as well. The whole, over HTTP/2, and
//! all of the sample over HTTP/1.1 run with
//!
//! ```sh
//! KUBECTL_AICR_MATRIX=whole cargo test --test it matrix -- --nocapture
//! ```
//!
//! and with any other text, the points whose description holds it.

mod bystanders;
mod disturbance;
mod point;
mod request;
mod trial;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};

use self::point::{Point, points};
use self::trial::{Ending, Trial};

/// Points that are tried at once: most of a trial is waiting.
const AT_ONCE: usize = 6;

/// Points of the sample that begin at a write, and at anything else.
const SAMPLE: (usize, usize) = (60, 30);

/// One in so many points of the sample is tried over HTTP/1.1 as well; no factor of the sample's own steps.
const OVER_HTTP1: usize = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_at_any_request_everything_is_deleted_or_listed_and_nothing_else_touched() {
    let (all, begun) = (points().await, Instant::now());
    let due: Vec<Point> = match std::env::var("KUBECTL_AICR_MATRIX").as_deref() {
        Ok("whole") => [all.clone(), over_http1(sample(&all))].concat(),
        Ok(text) => all.iter().filter(|point| point.to_string().contains(text)).cloned().collect(),
        Err(_) => [sample(&all), over_http1(sample(&all).into_iter().step_by(OVER_HTTP1))].concat(),
    };
    println!("{} of {} points", due.len(), all.len());

    let tried = due.iter().map(|point| async move {
        let tried = AssertUnwindSafe(Trial::run(point)).catch_unwind().await;
        let tried = tried.unwrap_or_else(|panic| Err(said(&panic)));
        match &tried {
            Ok(Ending::Clean | Ending::Finished) => {}
            Ok(ending) => println!("{ending:?}: {point}"),
            Err(why) => println!("FAILED {point}\n{why}\n"),
        }
        (point, tried)
    });
    let tried: Vec<_> = stream::iter(tried).buffer_unordered(AT_ONCE).collect().await;

    let mut endings = BTreeMap::<Ending, usize>::new();
    let mut failed = Vec::new();
    for (point, tried) in &tried {
        match tried {
            Ok(ending) => *endings.entry(*ending).or_default() += 1,
            Err(why) => failed.push(format!("{point}\n{why}")),
        }
    }
    println!("{} points in {:?}: {endings:#?}", tried.len(), begun.elapsed());
    assert!(failed.is_empty(), "{} of {} points failed:\n\n{}", failed.len(), tried.len(), failed.join("\n\n"));
    let missed = endings.get(&Ending::NeverReached).copied().unwrap_or_default();
    assert!(missed * 10 <= tried.len(), "{missed} of {} points were never reached", tried.len());
}

/// Spread evenly, the same in every run. The step has no factor in common with the number of disturbances, so that all
/// of them occur.
fn sample(all: &[Point]) -> Vec<Point> {
    let (writes, others): (Vec<&Point>, Vec<&Point>) = all.iter().partition(|point| point.request.is_write);
    let spread = |points: &[&Point], count: usize| -> Vec<Point> {
        let even = points.len() / count;
        let step = (even..even + 30).find(|step| [2, 3, 5].iter().all(|factor| step % factor != 0)).unwrap();
        (0..count.min(points.len())).map(|index| points[index * step % points.len()].clone()).collect()
    };
    [spread(&writes, SAMPLE.0), spread(&others, SAMPLE.1)].concat()
}

fn over_http1(points: impl IntoIterator<Item = Point>) -> Vec<Point> {
    points.into_iter().map(Point::over_http1).collect()
}

fn said(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".to_owned())
}
