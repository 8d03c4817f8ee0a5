//! A watch that lasts: closed, broken, silent, expired or refused, it is taken up again until it is dropped (R20).

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Api;
use kube::api::{ListParams, Resource, ResourceExt as _, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::agent::cluster::{Cluster, Pause};
use crate::error::{ApiError, Failure};

/// Seconds after which the server ends a watch. What stands between may answer pings while it has lost the server, so
/// only an end that is due tells a silent watch from a dead one. Load balancers cut idle connections at 240 s.
const WATCH_SECONDS: u32 = 60;

/// Longest silence of a watch: the server should have ended it.
const LONGEST_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// A watch that ends sooner than this is taken up again after a pause only: something keeps cutting it.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// So many watches in a row that bring nothing are followed by a list: their resource version may be one that the
/// server never comes to, or watches may not get through at all.
const FUTILE: usize = 3;

/// What a watch saw.
#[derive(Debug)]
pub(crate) enum Change<K> {
    /// All that exists now; whatever is missing here is gone.
    Listed(Vec<K>),
    /// An object was added or changed.
    Applied(K),
    /// An object was deleted; this is its last state.
    Deleted(K),
    /// The watch is broken at the moment and will be taken up again.
    Broken(ApiError),
}

/// Which objects to watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

/// Why one stretch of a watch ended.
enum Ended {
    /// As watches do; it can go on from where it was.
    Closed,
    /// The server does not know that resource version any more, or the stream made no sense: list anew.
    Lost,
    Failed(ApiError),
}

/// Lists, then watches, for as long as it is polled. RBAC: `list` and `watch` on the kind.
pub(crate) async fn follow<K>(cluster: Cluster, api: Api<K>, what: &str, selector: Selector, see: impl Fn(Change<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut version: Option<String> = None;
    let mut pause = Pause::default();
    let mut futile = 0;
    loop {
        let from = match version.take() {
            Some(from) => from,
            None => match list(&cluster, &api, what, &selector).await {
                Ok((items, from)) => {
                    see(Change::Listed(items));
                    from
                }
                Err(error) => {
                    let wait = pause.after(&error);
                    see(Change::Broken(error));
                    sleep(wait).await;
                    continue;
                }
            },
        };
        let started = Instant::now();
        let mut last = from.clone();
        let ended = stretch(&cluster, &api, what, &selector, &mut last, &see).await;
        let lasted = started.elapsed() > SHORT_LIVED;
        if lasted {
            pause = Pause::default();
        }
        let is_futile = last == from && !(lasted && matches!(ended, Ended::Closed));
        futile = if is_futile { futile + 1 } else { 0 };
        if futile == FUTILE || matches!(ended, Ended::Lost) {
            futile = 0;
        } else {
            version = Some(last);
        }
        match ended {
            Ended::Failed(error) => {
                let wait = pause.after(&error);
                see(Change::Broken(error));
                sleep(wait).await;
            }
            Ended::Closed | Ended::Lost if lasted => {}
            Ended::Closed | Ended::Lost => sleep(pause.next()).await,
        }
    }
}

/// What there is now, and the resource version of that. RBAC: `list` on the kind.
pub(crate) async fn list<K>(
    cluster: &Cluster,
    api: &Api<K>,
    what: &str,
    selector: &Selector,
) -> Result<(Vec<K>, String), ApiError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let parameters = ListParams {
        label_selector: selector.labels.clone(),
        field_selector: selector.fields.clone(),
        ..ListParams::default()
    };
    let list = cluster.bounded(&format!("list {what}"), api.list(&parameters)).await?;
    Ok((list.items, list.metadata.resource_version.unwrap_or_default()))
}

async fn stretch<K>(
    cluster: &Cluster,
    api: &Api<K>,
    what: &str,
    selector: &Selector,
    last: &mut String,
    see: &impl Fn(Change<K>),
) -> Ended
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let parameters = WatchParams {
        label_selector: selector.labels.clone(),
        field_selector: selector.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        ..WatchParams::default()
    };
    let action = format!("watch {what}");
    let stream = match cluster.bounded(&action, api.watch(&parameters, last)).await {
        Ok(stream) => stream,
        Err(error) if error.has_code(410) => return Ended::Lost,
        Err(error) => return Ended::Failed(error),
    };
    let mut stream = pin!(stream);
    loop {
        let event = match timeout(LONGEST_SILENCE, stream.try_next()).await {
            Err(_) => {
                return Ended::Failed(ApiError { action, failure: Failure::NoAnswer(LONGEST_SILENCE) });
            }
            Ok(Ok(None)) => return Ended::Closed,
            Ok(Ok(Some(event))) => event,
            Ok(Err(kube::Error::SerdeError(_))) => return Ended::Lost,
            Ok(Err(error)) => return Ended::Failed(ApiError::new(action, error)),
        };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                remember(last, object.resource_version());
                see(Change::Applied(object));
            }
            WatchEvent::Deleted(object) => {
                remember(last, object.resource_version());
                see(Change::Deleted(object));
            }
            WatchEvent::Bookmark(bookmark) => remember(last, Some(bookmark.metadata.resource_version)),
            WatchEvent::Error(status) if status.code == 410 => return Ended::Lost,
            WatchEvent::Error(status) => return Ended::Failed(ApiError::new(action, kube::Error::Api(status))),
        }
    }
}

fn remember(last: &mut String, version: Option<String>) {
    if let Some(version) = version.filter(|version| !version.is_empty()) {
        *last = version;
    }
}
