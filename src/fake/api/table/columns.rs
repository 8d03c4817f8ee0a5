//! The columns of each kind, as the server prints them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::object::Object as _;
use super::Column;

pub(crate) const NAME: Column = column("Name", |object| object.meta("name").into());
pub(crate) const AGE: Column = column("Age", |object| since(object.meta("creationTimestamp")));

pub(crate) const CONFIG_MAP: &[Column] = &[NAME, DATA, AGE];

pub(crate) const SECRET: &[Column] = &[NAME, column("Type", |secret| secret["type"].clone()), DATA, AGE];

pub(crate) const NAMESPACE: &[Column] =
    &[NAME, column("Status", |namespace| namespace.text("/status/phase").into()), AGE];

pub(crate) const ROLE: &[Column] = &[NAME, column("Created At", |role| role.meta("creationTimestamp").into())];

pub(crate) const BINDING: &[Column] = &[
    NAME,
    column("Role", |binding| format!("{}/{}", binding.text("/roleRef/kind"), binding.text("/roleRef/name")).into()),
    AGE,
    wide("Users", |binding| subjects(binding, "User")),
    wide("Groups", |binding| subjects(binding, "Group")),
    wide("ServiceAccounts", |binding| subjects(binding, "ServiceAccount")),
];

pub(crate) const RUNTIME_CLASS: &[Column] = &[NAME, column("Handler", |class| class["handler"].clone()), AGE];

pub(crate) const EVENT: &[Column] = &[
    column("Last Seen", |event| since(event.text("/lastTimestamp"))),
    column("Type", |event| event["type"].clone()),
    column("Reason", |event| event["reason"].clone()),
    column("Object", |event| {
        let kind = event.text("/involvedObject/kind").to_lowercase();
        format!("{kind}/{}", event.text("/involvedObject/name")).into()
    }),
    wide("Subobject", |event| event.text("/involvedObject/fieldPath").into()),
    wide("Source", |event| event.text("/source/component").into()),
    column("Message", |event| event.text("/message").trim().into()),
    wide("First Seen", |event| since(event.text("/firstTimestamp"))),
    wide("Count", |event| event["count"].clone()),
    wide("Name", |event| event.meta("name").into()),
];

pub(crate) const NODE: &[Column] = &[
    NAME,
    column("Status", |node| {
        let ready = condition(node, "Ready").is_some_and(|condition| condition["status"] == "True");
        if ready { "Ready" } else { "NotReady" }.into()
    }),
    column("Roles", |_| "<none>".into()),
    AGE,
    column("Version", |node| node.text("/status/nodeInfo/kubeletVersion").into()),
    wide("Internal-IP", |node| node.text("/status/addresses/0/address").into()),
    wide("External-IP", |_| "<none>".into()),
    wide("OS-Image", |node| node.text("/status/nodeInfo/osImage").into()),
    wide("Kernel-Version", |node| node.text("/status/nodeInfo/kernelVersion").into()),
    wide("Container-Runtime", |node| node.text("/status/nodeInfo/containerRuntimeVersion").into()),
];

pub(crate) const POD: &[Column] = &[
    NAME,
    column("Ready", |pod| {
        let ready = pod.list("/status/containerStatuses").iter().filter(|status| status["ready"] == true).count();
        format!("{ready}/{}", pod.list("/spec/containers").len()).into()
    }),
    column("Status", pod_status),
    column("Restarts", |_| "0".into()),
    AGE,
    wide("IP", |pod| or_none(pod.text("/status/podIP"))),
    wide("Node", |pod| or_none(pod.text("/spec/nodeName"))),
    wide("Nominated Node", |_| "<none>".into()),
    wide("Readiness Gates", |_| "<none>".into()),
];

pub(crate) const JOB: &[Column] = &[
    NAME,
    column("Status", |job| {
        let is = |kind: &str| condition(job, kind).is_some_and(|condition| condition["status"] == "True");
        let status = match () {
            () if is("Complete") => "Complete",
            () if is("Failed") => "Failed",
            () if job.is_terminating() => "Terminating",
            () if is("Suspended") => "Suspended",
            () => "Running",
        };
        status.into()
    }),
    column("Completions", |job| {
        let succeeded = job["status"]["succeeded"].as_u64().unwrap_or_default();
        format!("{succeeded}/{}", job["spec"]["completions"].as_u64().unwrap_or(1)).into()
    }),
    column("Duration", |job| {
        let time = |field: &str| job.text(&format!("/status/{field}")).parse::<Timestamp>().ok();
        let took = time("startTime").map(|start| time("completionTime").unwrap_or_else(Timestamp::now) - start);
        took.and_then(|took| SignedDuration::try_from(took).ok()).map_or(Value::Null, |took| short(took).into())
    }),
    AGE,
    wide("Containers", |job| containers(job, "name")),
    wide("Images", |job| containers(job, "image")),
    wide("Selector", |job| {
        let labels = job["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        labels.collect::<Vec<_>>().join(",").into()
    }),
];

const DATA: Column = column("Data", |object| {
    let entries = |field: &str| object[field].as_object().map_or(0, serde_json::Map::len);
    (entries("data") + entries("binaryData")).into()
});

const fn column(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, priority: 0, cell }
}

const fn wide(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, priority: 1, cell }
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let of_kind = binding.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
    let names = of_kind.map(|subject| match subject.text("/namespace") {
        "" => subject.text("/name").to_owned(),
        namespace => format!("{namespace}/{}", subject.text("/name")),
    });
    names.collect::<Vec<_>>().join(", ").into()
}

fn containers(job: &Value, field: &str) -> Value {
    let containers = job.list("/spec/template/spec/containers").iter();
    containers.map(|container| container.text(&format!("/{field}"))).collect::<Vec<_>>().join(",").into()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.list("/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// A pod's state in a word: what a container waits for or ended with says more than the phase.
fn pod_status(pod: &Value) -> Value {
    if pod.is_terminating() {
        return "Terminating".into();
    }
    let of_state = |state: &str| {
        let pointer = format!("/state/{state}/reason");
        let statuses = pod.list("/status/containerStatuses").iter();
        statuses.map(|status| status.text(&pointer).to_owned()).find(|reason| !reason.is_empty())
    };
    let reason = pod.text("/status/reason");
    let word = if reason.is_empty() { of_state("waiting").or_else(|| of_state("terminated")) } else { None };
    word.unwrap_or_else(|| if reason.is_empty() { pod.text("/status/phase") } else { reason }.to_owned()).into()
}

fn since(time: &str) -> Value {
    match time.parse::<Timestamp>() {
        Ok(time) => short(Timestamp::now().duration_since(time)).into(),
        Err(_) => "<unknown>".into(),
    }
}

/// A duration in at most two units.
fn short(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{}m{}s", seconds / 60, seconds % 60),
        600..10_800 => format!("{}m", seconds / 60),
        10_800..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
