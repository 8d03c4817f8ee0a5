//! `kubectl aicr completion`: scripts for shells, and what kubectl's own completion asks for (R43).
//!
//! kubectl completes a plugin by running `kubectl_complete-aicr` with the words after `aicr`, the last of which is being
//! typed. That shim runs this program with [`REQUEST`] before the words. The answer is cobra's: a line for each
//! candidate, `value<TAB>description`, and at the end `:` with a directive.

mod install;
mod line;
mod live;

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::builder::PossibleValue;
use clap::{Args, Command, ValueEnum, ValueHint};

use self::line::{Line, Wanted};
use self::live::Live;
use crate::deliver::to_stdout;
use crate::error::{Error, Invalid};
use crate::kubeconfig::Environment;
use crate::report::text::harmless;

/// The first word of a request for candidates. It is no command, so that no flag after it is taken for one of its own.
pub(crate) const REQUEST: &str = "__complete";

/// What a script completes: the program's file name.
const PROGRAM: &str = "kubectl-aicr";

/// What `completion` takes.
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// Shell to print a script for; kubectl for what lets kubectl complete
    #[arg(value_enum)]
    shell: Shell,
    /// Write what kubectl needs to where kubectl finds it
    #[arg(long)]
    install: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    Power,
    Kubectl,
}

/// Prints a script, or writes the shim.
pub(crate) fn run(args: &CompletionArgs, mut command: Command) -> Result<(), Error> {
    if args.install && args.shell != Shell::Kubectl {
        let rule =
            "only what kubectl needs can be installed: pass kubectl, or put the script where your shell reads it";
        return Err(Invalid::new("--install", "true", rule).into());
    }
    let mut script = Vec::new();
    let generator = match args.shell {
        Shell::Kubectl if args.install => return install::shim(),
        Shell::Kubectl => return to_stdout(install::SHIM.as_bytes()),
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Power => clap_complete::Shell::PowerShell,
    };
    clap_complete::generate(generator, &mut command, PROGRAM, &mut script);
    to_stdout(&script)
}

/// What the shell does with the candidates, in cobra's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    /// Names of files are candidates too.
    Files = 0,
    /// The candidates are all there are.
    Nothing = 4,
    /// The same, and the word goes on.
    NoSpace = 2 | 4,
    /// Names of directories are candidates.
    Directories = 16,
}

/// One thing that may stand where the cursor is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    value: String,
    description: String,
}

impl Candidate {
    fn new(value: impl Into<String>, description: impl AsRef<str>) -> Self {
        let first_line = harmless(description.as_ref()).lines().next().unwrap_or_default().replace('\t', " ");
        Self { value: value.into(), description: first_line }
    }
}

/// Answers a request of kubectl or of the shim. What cannot be found out is left out: nobody reads errors here.
pub(crate) async fn answer(mut command: Command, words: &[OsString]) -> Result<(), Error> {
    command.build();
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    to_stdout(reply(&command, &words).await.as_bytes())
}

async fn reply(command: &Command, words: &[String]) -> String {
    let (typed, before) = words.split_last().map_or(("", words), |(typed, before)| (typed.as_str(), before));
    let line = Line::read(command, before, typed);
    let (candidates, directive) = candidates(&line).await;
    let mut text = String::new();
    for Candidate { value, description } in &candidates {
        if !value.starts_with(line.typed) {
            continue;
        }
        text.push_str(value);
        if !description.is_empty() {
            text.push('\t');
            text.push_str(description);
        }
        text.push('\n');
    }
    format!("{text}:{}\n", directive as u8)
}

async fn candidates(line: &Line<'_>) -> (BTreeSet<Candidate>, Directive) {
    let arg = match &line.wanted {
        Wanted::Flag => return (line.flags().collect(), Directive::Nothing),
        Wanted::Value(arg) => arg,
        Wanted::Subcommand => return (line.subcommands().collect(), Directive::Nothing),
        Wanted::Unknown => return (BTreeSet::new(), Directive::Nothing),
    };
    let fixed: BTreeSet<Candidate> = arg.get_possible_values().iter().filter_map(of_possible_value).collect();
    if !fixed.is_empty() {
        return (fixed, Directive::Nothing);
    }
    match arg.get_value_hint() {
        ValueHint::FilePath | ValueHint::AnyPath => return (fixed, Directive::Files),
        ValueHint::DirPath => return (fixed, Directive::Directories),
        _ => {}
    }
    let words = |words: &[&str]| words.iter().map(|word| Candidate::new(*word, "")).collect();
    match arg.get_id().as_str() {
        "format" => (words(&["yaml", "json", "table"]), Directive::Nothing),
        "os" => (words(&["amazonlinux", "cos", "ol", "rhel", "talos", "ubuntu"]), Directive::Nothing),
        "words" => (line.topics().collect(), Directive::Nothing),
        "node_selector" => (live(line, Live::NodeLabels).await, Directive::NoSpace),
        id => match Live::of_argument(id) {
            Some(source) => (live(line, source).await, Directive::Nothing),
            None => (fixed, Directive::Nothing),
        },
    }
}

async fn live(line: &Line<'_>, source: Live) -> BTreeSet<Candidate> {
    source.candidates(&line.connection(), &Environment::unattended(), line.typed).await.into_iter().collect()
}

fn of_possible_value(value: &PossibleValue) -> Option<Candidate> {
    let help = value.get_help().map(ToString::to_string).unwrap_or_default();
    (!value.is_hide_set()).then(|| Candidate::new(value.get_name(), help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_to(line: &str) -> String {
        let mut command = crate::cli::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(reply(&command, &words))
    }

    /// The candidates without descriptions, and the directive.
    fn values_of(line: &str) -> Vec<String> {
        reply_to(line).lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn r43_commands_come_with_what_they_do() {
        assert_eq!(reply_to("sn"), "snapshot\tCapture the configuration of the cluster\n:4\n");
        let all = ["cleanup", "completion", "help", "orphans", "roles", "snapshot", "version", ":4"];
        assert_eq!(values_of(""), all);
        assert_eq!(values_of("-n gpu -v 6 sn"), ["snapshot", ":4"], "after flags");
    }

    #[test]
    fn r43_flags_come_with_their_help_and_only_once_unless_they_may_be_repeated() {
        assert_eq!(
            reply_to("snapshot --image-"),
            "--image-pull-secret\tSecret to pull the image with; may be repeated\n:4\n"
        );
        assert_eq!(values_of("snapshot --kubec"), ["--kubeconfig", ":4"], "connection flags too");
        assert_eq!(values_of("snapshot --run-id a --run-"), [":4"]);
        assert_eq!(values_of("snapshot --toleration a:NoSchedule --tolera"), ["--toleration", ":4"]);
        assert!(values_of("roles -").contains(&"-o".to_owned()));
    }

    #[test]
    fn r43_values_that_are_known_come_alone_in_every_form_of_a_flag() {
        for line in ["roles -o ", "roles --output ", "roles --output=", "roles -o=", "roles -yo "] {
            assert_eq!(values_of(line), ["json", "yaml", ":4"], "{line}");
        }
        assert_eq!(values_of("orphans -Ao j"), ["json", ":4"]);
        assert_eq!(values_of("snapshot --format="), ["json", "table", "yaml", ":4"]);
        assert_eq!(values_of("completion k"), ["kubectl", ":4"]);
        assert_eq!(values_of("completion kubectl "), [":4"], "one place only");
        assert_eq!(values_of("help ex"), ["exit-codes", ":4"]);
        assert_eq!(values_of("snapshot --nothing="), [":4"]);
        assert_eq!(values_of("snapshot --keep-job="), ["false", "true", ":4"]);
    }

    #[test]
    fn r43_files_and_directories_are_left_to_the_shell() {
        assert_eq!(values_of("snapshot -o "), [":0"]);
        assert_eq!(values_of("snapshot --config="), [":0"]);
        assert_eq!(values_of("roles --output-dir "), [":16"]);
    }

    #[test]
    fn after_two_dashes_nothing_is_a_flag() {
        assert_eq!(values_of("completion -- k"), ["kubectl", ":4"]);
        assert_eq!(values_of("completion -- --inst"), [":4"]);
    }

    #[test]
    fn connection_flags_of_the_line_are_used() {
        let mut command = crate::cli::command();
        command.build();
        let words = ["-n", "gpu", "snapshot", "--context=a b", "--insecure-skip-tls-verify", "--format", "json", "-sx"];
        let words: Vec<String> = words.map(str::to_owned).into();
        let flags = Line::read(&command, &words, "").connection();
        assert_eq!(flags.namespace.as_deref(), Some("gpu"));
        assert_eq!(flags.context.as_deref(), Some("a b"));
        assert_eq!(flags.server.as_deref(), Some("x"));
        assert!(flags.insecure_skip_tls_verify);
    }
}
