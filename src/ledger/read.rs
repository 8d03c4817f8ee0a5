//! Reading ledgers: whatever lies in the directory, reading goes on, and what could not be read is said.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::agent::created_set::{Change, Entries};
use crate::agent::run_id::InvocationId;
use crate::ledger::{ClusterId, EXTENSION, Header};

/// Longest file that is taken for a ledger. A run creates fewer than ten objects; their ledger has a few KiB.
const LONGEST: u64 = 1 << 20;

/// What the ledger of one invocation tells.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) header: Header,
    pub(crate) entries: Entries,
    /// Its process still runs.
    pub(crate) live: bool,
    path: PathBuf,
    ends_torn: bool,
}

/// Everything that the directory tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) pasts: Vec<Past>,
    /// Pasts of other clusters.
    pub(crate) elsewhere: Vec<Past>,
    /// Invocations whose process still runs, those included whose file cannot be read meanwhile.
    pub(crate) live: Vec<InvocationId>,
    /// What was skipped, as sentences.
    pub(crate) problems: Vec<String>,
}

impl Past {
    #[cfg(test)]
    pub(crate) fn imagined(header: Header, entries: Entries, live: bool) -> Self {
        Self { header, entries, live, path: PathBuf::new(), ends_torn: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the last line was cut off.
    pub(super) fn ends_torn(&self) -> bool {
        self.ends_torn
    }
}

/// Reads every ledger of a directory. Never fails: a directory that does not exist holds none.
pub(crate) fn read(directory: &Path) -> Reading {
    let mut reading = Reading::default();
    let files = match files(directory) {
        Ok(files) => files,
        Err(error) => {
            reading.problems.push(format!("cannot read the ledgers in {}: {error}", directory.display()));
            return reading;
        }
    };
    for path in files {
        if let Err(problem) = reading.add(&path) {
            reading.problems.push(format!("{} is skipped: {problem}", path.display()));
        }
    }
    reading
}

/// In the order of their names, which is that of their start. Dot files are left aside: a ledger that is being made
/// is one.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing?,
    };
    let mut files = Vec::new();
    for file in listing {
        let file = file?;
        if !file.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(file.path());
        }
    }
    files.sort();
    Ok(files)
}

impl Reading {
    /// Sets aside what other clusters' ledgers tell (R36).
    pub(crate) fn of_cluster(mut self, cluster: &ClusterId) -> Self {
        let (here, elsewhere) = self.pasts.into_iter().partition(|past| past.header.cluster.is_same(cluster));
        self.pasts = here;
        self.elsewhere.extend::<Vec<_>>(elsewhere);
        self
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        // Opening a pipe or a device could hang.
        if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            // Whether it was something else or has just been removed by its process.
            return if path.exists() { Err("it is not a file".to_owned()) } else { Ok(()) };
        }
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(|error| error.to_string())?,
        };
        // Shared, so that two readers do not take one another for the owner.
        let live = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        if live
            && path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(invocation_id) = path.file_stem().and_then(|stem| stem.to_str())
        {
            self.live.push(InvocationId::recorded(invocation_id.to_owned()));
        }
        let mut text = Vec::new();
        (&mut file).take(LONGEST + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > LONGEST {
            return Err("it is too long for a ledger".to_owned());
        }
        let (past, unreadable) = parse(path, &text, live)?;
        if !live {
            self.problems.extend(unreadable);
        }
        self.pasts.push(past);
        Ok(())
    }
}

/// What a file tells, and which of its lines tell nothing.
fn parse(path: &Path, content: &[u8], locked: bool) -> Result<(Past, Option<String>), String> {
    let mut lines = content.split_inclusive(|&byte| byte == b'\n').enumerate();
    let header = match lines.next() {
        Some((_, line)) if line.ends_with(b"\n") => Header::parse(line)?,
        Some((_, line)) if !line.starts_with(b"{") => return Err("it is not a ledger".to_owned()),
        _ => return Err("it is cut off in its first line".to_owned()),
    };
    let mut entries = Entries::default();
    let mut unreadable = Vec::new();
    for (index, line) in lines {
        match serde_json::from_slice::<Change>(line) {
            Ok(change) if line.ends_with(b"\n") => entries.apply(&change),
            _ => unreadable.push((index + 1).to_string()),
        }
    }
    let problem = (!unreadable.is_empty())
        .then(|| format!("{}: line {} cannot be read and is skipped", path.display(), unreadable.join(", ")));
    let past = Past { header, entries, live: locked, path: path.to_owned(), ends_torn: !content.ends_with(b"\n") };
    Ok((past, problem))
}
