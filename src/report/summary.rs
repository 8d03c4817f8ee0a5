//! The end of a run or a cleanup: what became of every object (R41).

use std::fmt::Write as _;

use crate::agent::cleanup::{Fate, Removal};
use crate::agent::run_id::RunId;
use crate::error::Error;
use crate::report::text::{harmless, next_line};
use crate::report::{stderr, table};

/// Prints the table of objects, and what was left, to stderr. Quiet leaves what needs action.
pub(crate) fn print(run_id: &RunId, removals: &[Removal], quiet: bool) {
    stderr::print(text(run_id, removals, quiet));
}

/// Says beside another error that objects were left, and how to finish.
pub(crate) fn print_left(left: &Error) {
    let next = left.next_step().as_deref().map(next_line).unwrap_or_default();
    stderr::print(format!("warning: {left}\n{next}"));
}

fn text(run_id: &RunId, removals: &[Removal], quiet: bool) -> String {
    let mut text = String::new();
    if !quiet && !removals.is_empty() {
        text.push('\n');
        text.push_str(&table::created_objects(removals));
    }
    // An unreachable cluster is one trouble, not one for each object.
    let (unreachable, known): (Vec<_>, Vec<_>) = removals.iter().partition(|removal| removal.fate.is_unreachable());
    let warnings = unreachable.into_iter().take(1).chain(known).filter_map(warning);
    text.extend(
        warnings.flat_map(|warning| ["warning: ".to_owned(), harmless(&warning).into_owned(), "\n".to_owned()]),
    );
    if removals.iter().any(|removal| matches!(removal.fate, Fate::Kept)) {
        let _ = writeln!(text, "kept on request; remove with `kubectl aicr cleanup {run_id}`");
    }
    text
}

fn warning(removal: &Removal) -> Option<String> {
    let object = &removal.object;
    match &removal.fate {
        Fate::Failed(error) => Some(error.to_string()),
        Fate::StillTerminating => Some(format!("{object} is still terminating: finalizers hold it")),
        Fate::Refused(reason) => Some(format!("{object} is left: it is not proven to be this run's ({reason})")),
        Fate::Deleted | Fate::Gone | Fate::Kept => None,
    }
}
