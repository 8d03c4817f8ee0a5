//! What the gate found, for people: who lacks what, and what to do about it (R15).

use std::fmt::Write as _;
use std::iter;

use crate::agent::manifests::text::yaml;
use crate::agent::preflight::check::{Check, Who};
use crate::agent::preflight::report::{PreparedAccount, Report};
use crate::report::table::columns;
use crate::report::text::{harmless, next_line};

/// Everything that has to change and how, below the headline. Ends with what an administrator can apply.
pub(crate) fn details(report: &Report) -> String {
    let mut text = String::new();
    if !report.missing.is_empty() {
        section(&mut text, &missing(report));
    }
    for problem in &report.problems {
        section(&mut text, &format!("{problem}\n{}", next_line(&problem.next_step())));
    }
    let warnings = report.warnings.iter().map(|warning| format!("warning: {warning}\n"));
    let notes = report.notes.iter().map(|note| format!("note: {note}\n"));
    section(&mut text, &warnings.chain(notes).collect::<String>());
    section(&mut text, &next_steps(report));
    text
}

fn section(text: &mut String, body: &str) {
    if !body.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}", harmless(body));
    }
}

/// One row for the verbs on a resource that are needed for the same thing.
fn missing(report: &Report) -> String {
    let mut rows: Vec<(&Check, Vec<&str>)> = Vec::new();
    for check in &report.missing {
        let same = |(other, _): &&mut (&Check, Vec<&str>)| {
            Check { verb: String::new(), ..(*other).clone() } == Check { verb: String::new(), ..check.clone() }
        };
        match rows.iter_mut().find(same) {
            Some((_, verbs)) => verbs.push(&check.verb),
            None => rows.push((check, vec![&check.verb])),
        }
    }
    let rows = rows.into_iter().map(|(check, verbs)| {
        let name = check.name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        [
            who(report, &check.who),
            verbs.join(", "),
            format!("{}{name}", check.qualified_resource()),
            check.scope.to_string(),
            check.needed_for.clone(),
        ]
    });
    let header = ["WHO", "VERB", "RESOURCE", "SCOPE", "NEEDED FOR"].map(str::to_owned);
    columns(iter::once(header).chain(rows))
}

fn who(report: &Report, who: &Who) -> String {
    match (who, &report.caller) {
        (Who::Caller, Some(caller)) => format!("you ({})", caller.name),
        (who, _) => who.to_string(),
    }
}

fn next_steps(report: &Report) -> String {
    let mut text = String::new();
    let mut lead = "next";
    if let Some(account) = &report.account {
        text.push_str(&prepare(lead, account));
        lead = if account.exists { "and" } else { "or" };
    }
    if !report.grant.is_empty() {
        let blank = if report.caller.is_none() { ", with the user's name filled in" } else { "" };
        let _ = write!(text, "{lead}: an administrator gives what is missing with `kubectl apply -f -`{blank}:\n\n");
        text.push_str(&report.grant.iter().map(yaml).collect::<Vec<_>>().join("---\n"));
    }
    text
}

fn prepare(lead: &str, account: &PreparedAccount) -> String {
    let what = if account.exists {
        "an administrator gives the account what the agent needs"
    } else {
        "an administrator prepares an account once, so that a run need not grant anything"
    };
    let mut text = format!("{lead}: {what}:\n");
    for command in account.commands() {
        let _ = writeln!(text, "  {command}");
    }
    if !account.exists {
        let _ = writeln!(text, "then run again with --service-account-name {}", account.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::manifests;
    use crate::agent::preflight::check::Scope;
    use crate::agent::preflight::report::Problem;

    fn check(who: Who, verb: &str, group: &str, resource: &str, needed_for: &str) -> Check {
        Check {
            who,
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            scope: Scope::Namespace("gpu".to_owned()),
            name: None,
            needed_for: needed_for.to_owned(),
        }
    }

    #[test]
    fn r15_everything_that_has_to_change_is_shown_at_once_with_how() {
        let caller = |verb, group, resource, needed_for| check(Who::Caller, verb, group, resource, needed_for);
        let named = Check { name: Some("gpu".to_owned()), ..caller("patch", "", "namespaces", "label the namespace") };
        let mut subject = manifests::subject("", "alice");
        subject.kind = "User".to_owned();
        let report = Report {
            missing: vec![
                caller("create", "batch", "jobs", "start the agent"),
                caller("list", "batch", "jobs", "see the agent's Job end"),
                caller("watch", "batch", "jobs", "see the agent's Job end"),
                caller("get", "", "pods/log", "show the agent's log"),
                named,
            ],
            problems: vec![Problem::PodSecurity { namespace: "gpu".to_owned(), profile: "restricted".to_owned() }],
            warnings: vec!["something \u{1b}[31mred".to_owned()],
            notes: vec!["worth knowing".to_owned()],
            caller: Some(subject),
            grant: vec![json!({ "kind": "Role" }), json!({ "kind": "RoleBinding" })],
            account: Some(PreparedAccount {
                namespace: "gpu".to_owned(),
                name: "aicr-agent".to_owned(),
                exists: false,
                discover_network: true,
            }),
            ..Report::default()
        };
        insta::assert_snapshot!(format!("error: {}\n{}", report.headline(), details(&report)));
    }

    #[test]
    fn r17_an_account_that_lacks_rules_gets_the_exact_command() {
        let account = Who::Account { namespace: "gpu".to_owned(), name: "irsa-sa".to_owned() };
        let report = Report {
            missing: vec![check(account, "list", "apps", "daemonsets", "the agent reads the drivers")],
            account: Some(PreparedAccount {
                namespace: "gpu".to_owned(),
                name: "irsa-sa".to_owned(),
                exists: true,
                discover_network: false,
            }),
            ..Report::default()
        };
        insta::assert_snapshot!(details(&report));
    }
}
