//! What a container does, decided by its image.
//!
//! `registry.test/aicr:WORDS` where WORDS are joined by `_` and mean:
//!
//! | word | the container … |
//! |---|---|
//! | `success` | does what the agent does: reads what it may, writes the document, exits 0 |
//! | `slow-DURATION` | takes that long before it writes (`5s`, `300ms`) |
//! | `logs-N` | logs N numbered lines at once |
//! | `drip-N-DURATION` | logs N numbered lines, a pause after each |
//! | `control` | logs a line with terminal control characters |
//! | `long-line-SIZE` | logs one line of that size |
//! | `partial-line` | ends its log without a line feed |
//! | `big-SIZE` | writes a document that fills a `ConfigMap` of that size (`64KiB`, `1MiB`) |
//! | `no-gpu` | writes a document without GPU data whose topology shows GPU labels |
//! | `empty-document` | writes an empty `snapshot.yaml` |
//! | `missing-key` | writes a `ConfigMap` without `snapshot.yaml` |
//! | `no-write` | writes nothing and exits 0 |
//! | `document` | writes the document although a word before this one says otherwise |
//! | `fail`, `fail-CODE` | writes nothing, logs an error, exits 1 or CODE |
//! | `oom` | is killed for its memory |
//! | `evicted` | is evicted with its pod |
//! | `hang` | runs until it is told to stop |
//! | `ignore-term` | runs until it is killed |
//! | `write-late-DURATION` | runs, and when told to stop writes the document after that time |
//! | `startup-DURATION` | is created that long before it starts |
//! | `never-starts` | stays in `ContainerCreating` |
//! | `image-pull-backoff` | has an image that is not there |
//! | `config-error` | cannot be configured (`CreateContainerConfigError`) |
//! | `mount-failure` | waits for a volume that cannot be mounted |
//! | `start-error` | cannot be started by the runtime |
//!
//! Steps (logs, pauses) run in the order of their words, all of them before the
//! write; of words that contradict each other the last one counts. An image of
//! any other registry is the agent's: it succeeds.

use std::time::Duration;

/// The course of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) start: Start,
    pub(super) steps: Vec<Step>,
    pub(super) write: Option<Content>,
    pub(super) end: End,
    pub(super) on_term: OnTerm,
}

/// How a container comes to run, or why it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    After(Duration),
    Never,
    NoSuchImage,
    InvalidImageName,
    ConfigError,
    MountFailure,
    RuntimeError,
}

/// One thing that a running container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Sleep(Duration),
    Lines { count: usize, pause: Duration },
    Text(String),
}

/// What the agent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A snapshot that fills a `ConfigMap` of `size` bytes.
    Document {
        size: usize,
        gpu: bool,
    },
    EmptyDocument,
    MissingKey,
}

/// How a container ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exit(i32),
    OutOfMemory,
    Evicted,
    Never,
}

/// What a container does on SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTerm {
    Exit,
    Ignore,
    WriteAfter(Duration),
}

const KIB: usize = 1024;

/// The size of a snapshot of a bare node.
pub(super) const DOCUMENT: Content = Content::Document { size: 15 * KIB, gpu: true };

impl Script {
    /// The script of an image. An unknown word is an error, so that a slip in a
    /// test does not pass for another behaviour.
    pub(super) fn of_image(image: &str) -> Result<Self, String> {
        let mut script = Self {
            start: Start::After(Duration::ZERO),
            steps: Vec::new(),
            write: Some(DOCUMENT),
            end: End::Exit(0),
            on_term: OnTerm::Exit,
        };
        let image = image.split('@').next().unwrap_or_default();
        if !is_reference(image) {
            script.start = Start::InvalidImageName;
        } else if let Some((_, tag)) = image.strip_prefix("registry.test/").and_then(|name| name.split_once(':')) {
            for word in tag.split('_') {
                script.apply(word).ok_or_else(|| format!("{image}: no script has the word {word:?}"))?;
            }
        }
        Ok(script)
    }

    fn apply(&mut self, word: &str) -> Option<()> {
        match word {
            "success" | "document" => self.write = Some(DOCUMENT),
            "no-gpu" => self.write = Some(Content::Document { size: 15 * KIB, gpu: false }),
            "empty-document" => self.write = Some(Content::EmptyDocument),
            "missing-key" => self.write = Some(Content::MissingKey),
            "no-write" => self.write = None,
            "control" => self.steps.push(Step::Text(CONTROL.into())),
            "partial-line" => self.steps.push(Step::Text("no line feed follows".into())),
            "fail" => self.end_early(End::Exit(1)),
            "oom" => self.end_early(End::OutOfMemory),
            "evicted" => self.end_early(End::Evicted),
            "hang" => self.end_early(End::Never),
            "ignore-term" => {
                self.end_early(End::Never);
                self.on_term = OnTerm::Ignore;
            }
            "never-starts" => self.start = Start::Never,
            "image-pull-backoff" => self.start = Start::NoSuchImage,
            "config-error" => self.start = Start::ConfigError,
            "mount-failure" => self.start = Start::MountFailure,
            "start-error" => self.start = Start::RuntimeError,
            _ => return self.apply_with_value(word),
        }
        Some(())
    }

    fn apply_with_value(&mut self, word: &str) -> Option<()> {
        let value = |name| word.strip_prefix(name);
        if let Some(code) = value("fail-") {
            self.end_early(End::Exit(code.parse().ok()?));
        } else if let Some(pause) = value("slow-") {
            self.steps.push(Step::Sleep(duration(pause)?));
        } else if let Some(count) = value("logs-") {
            self.steps.push(Step::Lines { count: count.parse().ok()?, pause: Duration::ZERO });
        } else if let Some((count, pause)) = value("drip-").and_then(|value| value.split_once('-')) {
            self.steps.push(Step::Lines { count: count.parse().ok()?, pause: duration(pause)? });
        } else if let Some(length) = value("long-line-") {
            self.steps.push(Step::Text("x".repeat(size(length)?) + "\n"));
        } else if let Some(total) = value("big-") {
            self.write = Some(Content::Document { size: size(total)?, gpu: true });
        } else if let Some(pause) = value("write-late-") {
            self.end_early(End::Never);
            self.on_term = OnTerm::WriteAfter(duration(pause)?);
        } else {
            self.start = Start::After(duration(value("startup-")?)?);
        }
        Some(())
    }

    fn end_early(&mut self, end: End) {
        self.write = None;
        self.end = end;
    }
}

/// Colour, cursor movement, a window title, a bell, a carriage return, C1 codes.
const CONTROL: &str = "\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1H\x1b]0;title\x07bell\x07 back\rover \u{9b}31m\u{85}end\n";

fn duration(text: &str) -> Option<Duration> {
    if let Some(millis) = text.strip_suffix("ms") {
        return millis.parse().ok().map(Duration::from_millis);
    }
    text.strip_suffix('s')?.parse().ok().map(Duration::from_secs)
}

fn size(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix("KiB") {
        Some(number) => (number, KIB),
        None => (text.strip_suffix("MiB")?, KIB * KIB),
    };
    Some(number.parse::<usize>().ok()? * unit)
}

/// Whether a container runtime takes the text for an image. Of the rules, those
/// that people break: no upper case in the path, no odd characters, no empty part.
fn is_reference(image: &str) -> bool {
    let (path, tag) = match image.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (image, None),
    };
    let tag_fits = |tag: &str| !tag.is_empty() && tag.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let part_fits = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c))
    };
    // Before the first slash, a registry may have a port.
    let registry_fits = |registry: &str| {
        let (host, port) = registry.split_once(':').unwrap_or((registry, "0"));
        part_fits(host) && port.parse::<u16>().is_ok()
    };
    let (registry, path) = match path.split_once('/') {
        Some((registry, path)) => (Some(registry), path),
        None => (None, path),
    };
    registry.is_none_or(registry_fits) && path.split('/').all(part_fits) && tag.is_none_or(tag_fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(image: &str) -> Script {
        Script::of_image(image).unwrap()
    }

    #[test]
    fn words_add_up_and_the_last_of_contradicting_ones_counts() {
        let script = script("registry.test/aicr:startup-1s_logs-3_slow-300ms_fail-7_document_big-1MiB");
        assert_eq!(script.start, Start::After(Duration::from_secs(1)));
        let pause = Step::Sleep(Duration::from_millis(300));
        assert_eq!(script.steps, [Step::Lines { count: 3, pause: Duration::ZERO }, pause]);
        assert_eq!(script.write, Some(Content::Document { size: 1_048_576, gpu: true }));
        assert_eq!(script.end, End::Exit(7));
    }

    #[test]
    fn any_other_image_is_the_agents() {
        let agent = script("registry.test/aicr:success");
        for image in ["ghcr.io/nvidia/aicr:v1.1.2", "registry.test/aicr:success@sha256:00", "localhost:5000/aicr"] {
            assert_eq!(script(image), agent, "{image}");
        }
    }

    #[test]
    fn a_slip_in_a_word_is_an_error() {
        for tag in ["sucess", "slow-5", "fail-x", "drip-3", "big-1MB", "fail__oom"] {
            let image = format!("registry.test/aicr:{tag}");
            assert!(Script::of_image(&image).is_err(), "{tag}");
        }
    }

    #[test]
    fn images_that_no_runtime_takes_are_told_from_others() {
        for image in
            ["registry.test/AICR:success", "registry.test//aicr", "registry.test/aicr:", "a b", "aicr:x:y/z", "/aicr"]
        {
            assert_eq!(script(image).start, Start::InvalidImageName, "{image}");
        }
    }
}
