//! The list of orphans in kubectl's formats (R37).

use std::io::{self, Write};
use std::iter;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::agent::cleanup::Reason;
use crate::agent::created_set::Uid;
use crate::agent::manifests::text;
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::orphans::Orphan;
use crate::report::age::age;
use crate::report::table;

/// Version of the JSON and YAML that is printed.
const SCHEMA_VERSION: u32 = 1;

/// How the list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns
    Table,
    /// Columns, with UID and the server's words
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names that kubectl delete takes
    Name,
}

/// The list as machines read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    schema_version: u32,
    #[serde(serialize_with = "one_by_one")]
    items: &'a [&'a Orphan],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    run_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// Writes the whole list, ended by a line end. Columns without rows are no text. Nothing is made of an orphan before
/// it is its turn: there may be thousands.
pub(crate) fn write(
    orphans: &[&Orphan],
    format: Format,
    headers: bool,
    now: Timestamp,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => {
            let header = ["KIND", "NAMESPACE", "NAME", "RUN ID", "AGE", "REASON"];
            columns(orphans, headers, header, |orphan| common(orphan, now), out)
        }
        Format::Wide => {
            let header = ["KIND", "NAMESPACE", "NAME", "RUN ID", "AGE", "REASON", "UID", "MESSAGE"];
            let row = |orphan: &Orphan| {
                let [kind, namespace, name, run_id, age, reason] = common(orphan, now);
                let uid = orphan.uid.as_ref().map_or_else(none, |uid| uid.as_str().to_owned());
                let message = orphan.left.message.as_ref().map_or_else(none, |message| message.replace('\n', " "));
                [kind, namespace, name, run_id, age, reason, uid, message]
            };
            columns(orphans, headers, header, row, out)
        }
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &list(orphans))?;
            writeln!(out)
        }
        Format::Yaml => text::write_yaml(&list(orphans), out),
        Format::Name => orphans.iter().try_for_each(|orphan| writeln!(out, "{}", name(&orphan.object))),
    }
}

fn columns<const N: usize>(
    orphans: &[&Orphan],
    headers: bool,
    header: [&str; N],
    row: impl Fn(&Orphan) -> [String; N],
    out: &mut dyn Write,
) -> io::Result<()> {
    let header = (headers && !orphans.is_empty()).then(|| header.map(str::to_owned));
    table::write(|| header.clone().into_iter().chain(orphans.iter().map(|orphan| row(orphan))), out)
}

fn common(orphan: &Orphan, now: Timestamp) -> [String; 6] {
    [
        orphan.object.kind.to_string(),
        orphan.object.namespace.clone().unwrap_or_else(none),
        orphan.object.name.clone(),
        if orphan.run_id.is_empty() { none() } else { orphan.run_id.to_string() },
        orphan.created.map_or_else(|| "<unknown>".to_owned(), |created| age(now.duration_since(created))),
        orphan.left.reason.to_string(),
    ]
}

fn none() -> String {
    "<none>".to_owned()
}

fn list<'a>(orphans: &'a [&'a Orphan]) -> List<'a> {
    List { schema_version: SCHEMA_VERSION, items: orphans }
}

fn one_by_one<S: Serializer>(orphans: &&[&Orphan], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(orphans.iter().map(|orphan| item(orphan)))
}

fn item(orphan: &Orphan) -> Item<'_> {
    Item {
        kind: orphan.object.kind,
        namespace: orphan.object.namespace.as_deref(),
        name: &orphan.object.name,
        uid: orphan.uid.as_ref().map(Uid::as_str),
        run_id: &orphan.run_id,
        created_at: orphan.created,
        reason: orphan.left.reason,
        message: orphan.left.message.as_deref(),
    }
}

/// `job.batch/aicr-1`: unambiguous even where another API group has a kind of the same name.
fn name(object: &ObjectRef) -> String {
    let kind = object.kind.as_str().to_ascii_lowercase();
    let dot = if object.kind.group().is_empty() { "" } else { "." };
    format!("{kind}{dot}{}/{}", object.kind.group(), object.name)
}

/// What is said where there is nothing to show.
pub(crate) fn nothing(namespace: Option<&str>) -> String {
    let namespace = namespace.map(|namespace| format!(" in namespace {namespace} or without one"));
    iter::once("no orphans found").chain(namespace.as_deref()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::created_set::Left;

    fn orphans() -> Vec<Orphan> {
        let created: Timestamp = "2026-08-21T14:22:33Z".parse().unwrap();
        let orphan = |object, run_id: &str, uid: &str, reason, message: Option<&str>| Orphan {
            object,
            uid: Uid::new(uid.to_owned()),
            run_id: run_id.into(),
            created: (!uid.is_empty()).then_some(created),
            left: Left { reason, message: message.map(str::to_owned) },
        };
        let job = ObjectRef::namespaced(Kind::Job, "gpu", "aicr-nightly");
        let binding = ObjectRef::cluster(Kind::ClusterRoleBinding, "aicr-node-reader-nightly");
        let account = ObjectRef::namespaced(Kind::ServiceAccount, "gpu", "stray");
        vec![
            orphan(account, "", "", Reason::NoRecord, None),
            orphan(job, "nightly", "u-1", Reason::StillTerminating, None),
            orphan(binding, "nightly", "u-2", Reason::DeleteFailed, Some("denied by\npolicy \u{1b}[31mx")),
        ]
    }

    fn render(orphans: &[&Orphan], format: Format, headers: bool) -> String {
        let mut text = Vec::new();
        write(orphans, format, headers, "2026-08-21T14:25:53Z".parse().unwrap(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn shown(format: Format, headers: bool) -> String {
        let orphans = orphans();
        render(&orphans.iter().collect::<Vec<_>>(), format, headers)
    }

    #[test]
    fn r37_table_and_wide_table() {
        insta::assert_snapshot!(shown(Format::Table, true), @r"
        KIND                 NAMESPACE   NAME                       RUN ID    AGE         REASON
        ServiceAccount       gpu         stray                      <none>    <unknown>   NoRecord
        Job                  gpu         aicr-nightly               nightly   3m20s       StillTerminating
        ClusterRoleBinding   <none>      aicr-node-reader-nightly   nightly   3m20s       DeleteFailed
        ");
        insta::assert_snapshot!(shown(Format::Wide, true), @r"
        KIND                 NAMESPACE   NAME                       RUN ID    AGE         REASON             UID      MESSAGE
        ServiceAccount       gpu         stray                      <none>    <unknown>   NoRecord           <none>   <none>
        Job                  gpu         aicr-nightly               nightly   3m20s       StillTerminating   u-1      <none>
        ClusterRoleBinding   <none>      aicr-node-reader-nightly   nightly   3m20s       DeleteFailed       u-2      denied by policy x
        ");
    }

    #[test]
    fn r37_headers_may_be_left_out() {
        let (with, without) = (shown(Format::Table, true), shown(Format::Table, false));
        assert_eq!(with.lines().count(), without.lines().count() + 1);
        assert!(!without.contains("REASON"));
    }

    #[test]
    fn r37_json_and_yaml_say_the_same() {
        insta::assert_snapshot!(shown(Format::Json, true), @r#"
        {
          "schemaVersion": 1,
          "items": [
            {
              "kind": "ServiceAccount",
              "namespace": "gpu",
              "name": "stray",
              "runId": "",
              "reason": "NoRecord"
            },
            {
              "kind": "Job",
              "namespace": "gpu",
              "name": "aicr-nightly",
              "uid": "u-1",
              "runId": "nightly",
              "createdAt": "2026-08-21T14:22:33Z",
              "reason": "StillTerminating"
            },
            {
              "kind": "ClusterRoleBinding",
              "name": "aicr-node-reader-nightly",
              "uid": "u-2",
              "runId": "nightly",
              "createdAt": "2026-08-21T14:22:33Z",
              "reason": "DeleteFailed",
              "message": "denied by\npolicy \u001b[31mx"
            }
          ]
        }
        "#);
        let (json, yaml) = (shown(Format::Json, true), shown(Format::Yaml, true));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), json);
        crate::report::assert_documented(&json, include_str!("../../docs/orphans.md"));
    }

    #[test]
    fn r37_names_are_what_kubectl_delete_takes() {
        assert_eq!(
            shown(Format::Name, true),
            "serviceaccount/stray\njob.batch/aicr-nightly\n\
             clusterrolebinding.rbac.authorization.k8s.io/aicr-node-reader-nightly\n"
        );
    }

    #[test]
    fn r37_nothing_found_leaves_columns_and_names_empty_and_json_whole() {
        for format in [Format::Table, Format::Wide, Format::Name] {
            assert_eq!(render(&[], format, true), "");
        }
        let json: serde_json::Value = serde_json::from_str(&render(&[], Format::Json, true)).unwrap();
        assert_eq!(json, serde_json::json!({ "schemaVersion": 1, "items": [] }));
    }
}
