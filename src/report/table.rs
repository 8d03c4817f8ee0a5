//! Tables as kubectl prints them: columns three spaces apart, no lines around them.

use std::io::{self, Write};
use std::iter;

use unicode_width::UnicodeWidthStr as _;

use crate::agent::cleanup::Removal;
use crate::agent::created_set::Uid;
use crate::report::text::harmless;

/// Spaces between two columns.
const GAP: usize = 3;

/// Aligns rows, a header first if there is one. Only cells of the last column may have several lines.
/// Empty when there are no rows at all.
pub(crate) fn columns<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let mut text = Vec::new();
    // Writing to memory does not fail, and what is written of strings is a string.
    let _ = write(|| rows.iter().cloned(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// As [`columns`], each line as it comes: rows are asked for twice, and not kept, since there may be thousands.
pub(crate) fn write<I, const N: usize>(rows: impl Fn() -> I, out: &mut (impl Write + ?Sized)) -> io::Result<()>
where
    I: Iterator<Item = [String; N]>,
{
    let mut widths = [0; N];
    for row in rows() {
        for (at, (cell, width)) in row.iter().zip(&mut widths).enumerate() {
            *width = shown(cell, at + 1 == N).width().max(*width);
        }
    }
    for row in rows() {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let is_last = at + 1 == N;
            let cell = shown(cell, is_last);
            if is_last {
                // Its further lines stand below its first.
                let below = format!("\n{}", " ".repeat(line.width()));
                line.push_str(&cell.replace('\n', &below));
            } else {
                line.push_str(&cell);
                line.extend(iter::repeat_n(' ', width + GAP - cell.width()));
            }
        }
        for line in line.split('\n') {
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// A cell's text without what would break the table.
fn shown(cell: &str, is_last: bool) -> String {
    let breaks: &[char] = if is_last { &['\t'] } else { &['\t', '\n'] };
    harmless(cell).replace(breaks, " ")
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
