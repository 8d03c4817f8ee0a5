//! A command line that is being typed: what stands where the cursor is. Pure.

use clap::{Arg, ArgAction, Args as _, Command, FromArgMatches as _};

use super::Candidate;
use crate::cli::connection::ConnectionArgs;
use crate::cli::help;
use crate::kubeconfig::ConnectionFlags;

/// What may stand where the cursor is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    Subcommand,
    Flag,
    /// A value of a flag or of a place.
    Value(&'a Arg),
    /// Nothing that is known.
    Unknown,
}

/// A line read up to the cursor.
#[derive(Debug)]
pub(super) struct Line<'a> {
    root: &'a Command,
    command: &'a Command,
    pub(super) wanted: Wanted<'a>,
    /// What is typed already of what is wanted.
    pub(super) typed: &'a str,
    /// Flags before the cursor with their values, each as `--name=value`.
    given: Vec<(&'a Arg, Option<String>)>,
}

impl<'a> Line<'a> {
    /// Reads the words before the cursor and the one under it. `root` must have been built.
    pub(super) fn read(root: &'a Command, words: &[String], typed: &'a str) -> Self {
        let mut line = Line { root, command: root, wanted: Wanted::Unknown, typed, given: Vec::new() };
        let mut awaiting = None;
        let mut only_places = false;
        let mut place = 0;
        for word in words {
            if let Some(arg) = awaiting.take() {
                line.given.push((arg, Some(word.clone())));
            } else if only_places {
                place += 1;
            } else if word == "--" {
                only_places = true;
            } else if word.len() > 1 && word.starts_with('-') {
                awaiting = line.take_flag(word);
            } else if let Some(subcommand) = line.command.find_subcommand(word) {
                line.command = subcommand;
            } else {
                place += 1;
            }
        }
        line.wanted = match awaiting {
            Some(arg) => Wanted::Value(arg),
            None if typed.starts_with('-') && !only_places => line.under_cursor(),
            None if line.command.has_subcommands() => Wanted::Subcommand,
            None => line.place(place),
        };
        line
    }

    /// Notes a flag; gives it back if the next word is its value.
    fn take_flag(&mut self, word: &str) -> Option<&'a Arg> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let arg = self.long(name)?;
            if value.is_none() && takes_next_word(arg) {
                return Some(arg);
            }
            self.given.push((arg, value.map(str::to_owned)));
            return None;
        }
        let mut rest = word[1..].chars();
        while let Some(letter) = rest.next() {
            let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
            if !takes_next_word(arg) {
                self.given.push((arg, None));
                continue;
            }
            let value = rest.as_str();
            if value.is_empty() {
                return Some(arg);
            }
            self.given.push((arg, Some(value.strip_prefix('=').unwrap_or(value).to_owned())));
            break;
        }
        None
    }

    /// A word that begins with a dash: a flag, or the value after its `=`, of which shells ask for the value alone.
    fn under_cursor(&mut self) -> Wanted<'a> {
        let Some((flag, value)) = self.typed.split_once('=') else { return Wanted::Flag };
        let arg = match flag.strip_prefix("--") {
            Some(name) => self.long(name),
            None => self
                .command
                .get_arguments()
                .find(|arg| arg.get_short().is_some_and(|short| flag[1..] == *short.to_string())),
        };
        self.typed = value;
        arg.filter(|arg| arg.get_action().takes_values()).map_or(Wanted::Unknown, Wanted::Value)
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| arg.get_long() == Some(name))
    }

    /// The argument that belongs at a place; the last may stand several times.
    fn place(&self, place: usize) -> Wanted<'a> {
        let places: Vec<&Arg> = self.command.get_positionals().collect();
        let arg = places.get(place).or_else(|| places.last().filter(|arg| repeats(arg))).copied();
        arg.map_or(Wanted::Unknown, Wanted::Value)
    }

    /// Flags that may still be given.
    pub(super) fn flags(&self) -> impl Iterator<Item = Candidate> {
        let used = |arg: &Arg| !repeats(arg) && self.given.iter().any(|(given, _)| given.get_id() == arg.get_id());
        self.command
            .get_arguments()
            .filter(move |arg| !arg.is_positional() && !arg.is_hide_set() && !used(arg))
            .flat_map(|arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let long = arg.get_long().map(|long| Candidate::new(format!("--{long}"), &help));
                let short = arg.get_short().map(|short| Candidate::new(format!("-{short}"), &help));
                [long, short].into_iter().flatten()
            })
    }

    pub(super) fn subcommands(&self) -> impl Iterator<Item = Candidate> {
        subcommands(self.command)
    }

    /// What `help` knows.
    pub(super) fn topics(&self) -> impl Iterator<Item = Candidate> {
        subcommands(self.root).chain(help::topics().map(|topic| Candidate::new(topic, "")))
    }

    /// The connection flags of the line. One that is wrong leaves all of them aside.
    pub(super) fn connection(&self) -> ConnectionFlags {
        let command = ConnectionArgs::augment_args(Command::new("connection").no_binary_name(true));
        let known = |arg: &Arg| command.get_arguments().any(|known| known.get_id() == arg.get_id());
        let flags = self.given.iter().filter(|(arg, _)| known(arg)).filter_map(|(arg, value)| {
            let name = arg.get_long()?;
            Some(value.as_ref().map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")))
        });
        let flags: Vec<String> = flags.collect();
        let parsed = command.try_get_matches_from(flags).and_then(|matches| ConnectionArgs::from_arg_matches(&matches));
        parsed.unwrap_or_default().into()
    }
}

fn subcommands(command: &Command) -> impl Iterator<Item = Candidate> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(|subcommand| {
        Candidate::new(subcommand.get_name(), subcommand.get_about().map(ToString::to_string).unwrap_or_default())
    })
}

fn takes_next_word(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn repeats(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append | ArgAction::Count)
}
