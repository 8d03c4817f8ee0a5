//! Help beyond what clap makes of the flags: examples, and topics of `kubectl aicr help`.

use std::fmt::Write as _;
use std::io;

use anstream::{AutoStream, ColorChoice};
use clap::builder::StyledStr;
use clap::{Args, Command};

use crate::agent::rules::{self, Rule};
use crate::deliver::to_stdout;
use crate::error::{Error, Invalid, exit};

/// What `help` takes.
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// A command, or a topic: exit-codes, rights
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

/// What a command line is for, and the command line.
type Example = (&'static str, &'static str);

const SNAPSHOT: &[Example] = &[
    ("Write the document to a file", "kubectl aicr snapshot -n gpu-operator -o snapshot.yaml"),
    ("Hand it to another program", "kubectl aicr snapshot -n gpu-operator | yq .metadata"),
    ("Look at what would be created", "kubectl aicr snapshot -n gpu-operator --dry-run=client"),
    ("Leave it in the cluster", "kubectl aicr snapshot -n gpu-operator -o cm://gpu-operator/snapshot"),
    (
        "Run as an account with a cloud identity, on nodes of one kind",
        "kubectl aicr snapshot -n gpu --service-account-name irsa-sa --node-selector nodeGroup=gpu",
    ),
    (
        "Where the Pod Security level `restricted` is enforced",
        "kubectl aicr snapshot -n gpu --privileged=false -o snapshot.yaml",
    ),
    ("In a pipeline", "kubectl aicr snapshot -n ci --quiet -o snapshot.yaml --report run.json"),
];

const ROLES: &[Example] = &[
    ("Write manifests for an administrator", "kubectl aicr roles -n gpu --service-account irsa-sa"),
    (
        "Apply them, as an administrator",
        "kubectl aicr roles -n gpu --service-account irsa-sa -o yaml --yes | kubectl apply -f -",
    ),
];

const ORPHANS: &[Example] = &[
    ("Everything in the whole cluster", "kubectl aicr orphans -A -o wide"),
    ("What one run left", "kubectl aicr orphans -A --run-id 20260821-142233-9f3a1c0b7e2d4a55"),
    ("For a script", "kubectl aicr orphans -A -o json"),
];

const CLEANUP: &[Example] = &[
    ("Look at what interrupted runs left, then decide", "kubectl aicr cleanup"),
    ("Finish one run without a question", "kubectl aicr cleanup 20260821-142233-9f3a1c0b7e2d4a55 --yes"),
];

const COMPLETION: &[Example] = &[
    ("Complete `kubectl aicr`, with names from the cluster", "kubectl aicr completion kubectl --install"),
    ("Complete `kubectl-aicr` in bash", "source <(kubectl-aicr completion bash)"),
];

const VERSION: &[Example] = &[("For a script", "kubectl aicr version -o json")];

/// A name, and what makes the text.
type Topic = (&'static str, fn() -> String);

/// Texts that `help` shows beside those of the commands.
const TOPICS: [Topic; 2] = [("exit-codes", exit_codes), ("rights", rights)];

/// Names of the topics.
pub(crate) fn topics() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|(name, _)| *name)
}

/// The command with examples at the end of each subcommand's help.
pub(crate) fn with_examples(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let topics: Vec<String> = topics().map(|topic| format!("  kubectl aicr help {topic}")).collect();
    let topics = format!("{header}Topics:{header:#}\n{}", topics.join("\n"));
    command.after_help(topics).mut_subcommands(|subcommand| {
        let examples = match subcommand.get_name() {
            "snapshot" => SNAPSHOT,
            "roles" => ROLES,
            "orphans" => ORPHANS,
            "cleanup" => CLEANUP,
            "completion" => COMPLETION,
            "version" => VERSION,
            _ => return subcommand,
        };
        let mut text = format!("{header}Examples:{header:#}");
        for (purpose, line) in examples {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  # {purpose}\n  {line}");
        }
        subcommand.after_help(text)
    })
}

/// Shows a topic, a command's help, or the whole program's.
pub(crate) fn run(args: &HelpArgs, command: Command) -> Result<(), Error> {
    let text = of(command, &args.words)?;
    let styled = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let text = if styled { text.ansi().to_string() } else { text.to_string() };
    to_stdout(text.as_bytes())
}

fn of(mut command: Command, words: &[String]) -> Result<StyledStr, Invalid> {
    if let [word] = words
        && let Some((_, text)) = TOPICS.iter().find(|(name, _)| name == word)
    {
        return Ok(text().into());
    }
    command.build();
    let mut found = &mut command;
    for word in words {
        let known = found.find_subcommand(word).is_some_and(|subcommand| !subcommand.is_hide_set());
        match found.find_subcommand_mut(word) {
            Some(subcommand) if known => found = subcommand,
            _ => {
                let topics = topics().collect::<Vec<_>>().join(", ");
                let rule = format!("must be a command, or one of the topics {topics}");
                return Err(Invalid::new("help", words.join(" "), rule));
            }
        }
    }
    Ok(found.render_long_help())
}

/// The meaning of each exit code.
const EXIT_CODES: [(u8, &str); 12] = [
    (exit::OK, "done"),
    (exit::OTHER, "any other error"),
    (exit::INVALID, "invalid input, kubeconfig and context included, or declined"),
    (exit::NOT_FOUND, "something named does not exist"),
    (exit::NOT_PERMITTED, "not permitted or not authenticated; also `orphans` that showed only a part"),
    (exit::TIMED_OUT, "timed out"),
    (exit::UNREACHABLE, "cluster or identity provider unreachable, TLS failures included"),
    (exit::INTERNAL, "internal error: please report it"),
    (exit::JOB_FAILED, "the agent's Job failed"),
    (exit::LEFT_BEHIND, "the document was delivered but objects were left; also `cleanup` that left some"),
    (exit::SIGNAL, "added to the number of a signal that ended the run: 129, 130, 143, after cleanup"),
    (exit::STDOUT_CLOSED, "the reader of stdout went away"),
];

fn exit_codes() -> String {
    let mut text = "Exit codes of kubectl aicr:\n\n".to_owned();
    for (code, meaning) in EXIT_CODES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {code:>3}  {meaning}");
    }
    text
}

/// What R16 asks of the caller.
const CALLER: &str = "\
Rights that you need. A run checks them before it writes anything, and names at once all that are missing.

  in the run's namespace
    - create, get, list, watch, delete jobs (batch)
    - get, list, watch pods
    - get pods/log
    - get, list, delete configmaps
    - create, delete, get serviceaccounts, roles, rolebindings
  in the whole cluster
    - create, delete, get clusterroles, clusterrolebindings
    - every right that the agent gets, for nobody may grant more than they hold
  where they can be had
    - get namespaces; list, watch events; list nodes

With --service-account-name and an account that exists, a run makes no account and no roles: neither the rights on
those nor the agent's own are asked of you then, but get on serviceaccounts.

Rights that the agent gets for the time of a run; an account of your own needs them for good, and
`kubectl aicr roles` writes them as manifests:

";

fn rights() -> String {
    let mut text = CALLER.to_owned();
    list(&mut text, "in the run's namespace", rules::NAMESPACE);
    list(&mut text, "in the whole cluster, to read", rules::cluster(false));
    list(&mut text, "in the whole cluster, with --discover-network only: these change it", rules::DISCOVER_NETWORK);
    text
}

fn list<'a>(text: &mut String, place: &str, rules: impl IntoIterator<Item = &'a Rule>) {
    let _ = writeln!(text, "  {place}");
    for rule in rules {
        let _ = writeln!(text, "    - {rule}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> Result<String, Invalid> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        of(crate::cli::command(), &words).map(|text| text.to_string())
    }

    #[test]
    fn every_command_but_help_ends_its_help_with_examples_that_parse() {
        for subcommand in crate::cli::command().get_subcommands() {
            let name = subcommand.get_name();
            let text = help(&[name]).unwrap();
            let Some((_, examples)) = text.split_once("\nExamples:\n") else {
                assert_eq!(name, "help");
                continue;
            };
            let lines: Vec<&str> = examples.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
            assert!(!lines.is_empty(), "{name}");
            for line in lines {
                let line = line.trim_start_matches("source <(").trim_end_matches(')');
                let line = line.split('|').next().unwrap_or_default().trim();
                let words = line.strip_prefix("kubectl aicr ").or(line.strip_prefix("kubectl-aicr ")).unwrap();
                let parsed =
                    crate::cli::command().try_get_matches_from(["kubectl-aicr"].into_iter().chain(words.split(' ')));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn r42_the_readme_and_the_help_agree_about_exit_codes() {
        let readme = include_str!("../../README.md");
        for (code, meaning) in EXIT_CODES {
            let signals = code == exit::SIGNAL;
            let row = format!("| {code} | {meaning} |");
            assert!(signals || readme.contains(&row), "{row}");
            assert!(help(&["exit-codes"]).unwrap().contains(&format!(" {code}  {meaning}\n")));
        }
    }

    #[test]
    fn r9_the_rights_are_those_that_are_granted() {
        insta::assert_snapshot!(help(&["rights"]).unwrap());
    }

    #[test]
    fn what_is_neither_command_nor_topic_is_refused_with_the_topics() {
        let error = help(&["nonsense"]).unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("exit-codes, rights"), "{error}");
        assert_eq!(help(&[]).unwrap(), crate::cli::command().render_long_help().to_string());
    }
}
