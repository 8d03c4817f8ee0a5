//! Tables as kubectl prints them: columns three spaces apart, no lines around them.

use std::iter;

use tabled::builder::Builder;
use tabled::settings::{Padding, Style};

use crate::agent::cleanup::Removal;
use crate::agent::created_set::Uid;
use crate::report::text::harmless;

/// Spaces between two columns.
const GAP: usize = 3;

/// Aligns rows, a header first if there is one. Only cells of the last column may have several lines.
/// Empty when there are no rows at all.
pub(crate) fn columns<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut builder = Builder::default();
    for row in rows {
        let last = N.saturating_sub(1);
        builder.push_record(row.iter().enumerate().map(|(at, cell)| {
            let breaks: &[char] = if at == last { &['\t'] } else { &['\t', '\n'] };
            harmless(cell).replace(breaks, " ")
        }));
    }
    let table = builder.build().with(Style::empty()).with(Padding::new(0, GAP, 0, 0)).to_string();
    table.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// The objects of a run and what became of each (R41).
pub(crate) fn created_objects(removals: &[Removal]) -> String {
    let header = ["KIND", "NAMESPACE", "NAME", "UID", "FATE"].map(str::to_owned);
    let rows = removals.iter().map(|Removal { object, uid, fate }| {
        [
            object.kind.to_string(),
            object.namespace.clone().unwrap_or_else(|| "<none>".to_owned()),
            object.name.clone(),
            uid.as_ref().map_or("<unknown>", Uid::as_str).to_owned(),
            fate.to_string(),
        ]
    });
    columns(iter::once(header).chain(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::cleanup::{Fate, Reason};
    use crate::agent::object::{Kind, ObjectRef};

    #[test]
    fn r41_created_objects_are_shown_with_their_fate() {
        let removal = |object, uid: Option<&str>, fate| Removal {
            object,
            uid: uid.and_then(|uid| Uid::new(uid.to_owned())),
            fate,
        };
        let job = ObjectRef::namespaced(Kind::Job, "gpu", "aicr-20260821-142233-9f3a1c0b7e2d4a55");
        let role = ObjectRef::cluster(Kind::ClusterRole, "aicr-node-reader-20260821-142233-9f3a1c0b7e2d4a55");
        let text = created_objects(&[
            removal(job, Some("0d0f1c5e-5a2c-4f44-9d6e-1c2f3a4b5c6d"), Fate::Deleted),
            removal(role, None, Fate::Refused(Reason::OwnerMismatch)),
        ]);
        insta::assert_snapshot!(text, @r#"
        KIND          NAMESPACE   NAME                                                UID                                    FATE
        Job           gpu         aicr-20260821-142233-9f3a1c0b7e2d4a55               0d0f1c5e-5a2c-4f44-9d6e-1c2f3a4b5c6d   deleted
        ClusterRole   <none>      aicr-node-reader-20260821-142233-9f3a1c0b7e2d4a55   <unknown>                              refused
        "#);
    }

    #[test]
    fn wide_characters_and_line_ends_keep_the_columns_aligned() {
        let rows = [["KEY", "VALUE"], ["日本", "two\nlines"], ["a\nb\tc", ""], ["", "x\t\u{1b}[31my"]];
        insta::assert_snapshot!(columns(rows.map(|row| row.map(str::to_owned))), @r#"
        KEY     VALUE
        日本    two
                lines
        a b c
                x y
        "#);
    }

    #[test]
    fn no_rows_give_no_text() {
        assert_eq!(columns::<2>([]), "");
    }
}
