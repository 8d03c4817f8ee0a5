//! The created-set on disk (R35, R36): one file an invocation, so that what a killed process created is known.
//!
//! A file holds JSON lines: a header, then what happened, appended. While the process lives it holds an exclusive lock
//! on its file; the lock falls with the process, however that ends.

mod cluster_id;
mod header;
mod read;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub(crate) use cluster_id::ClusterId;
pub(crate) use header::Header;
pub(crate) use read::{Past, Reading, read};

use crate::agent::created_set::Change;

/// Ending of a ledger's file name; the invocation ID stands before it.
const EXTENSION: &str = "jsonl";

/// The ledger of one invocation, open for appending.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    file: File,
    /// A write failed. It may have left half a line, which would swallow the next one.
    torn: bool,
    /// The process that wrote the header lives, and the file is its to remove.
    lent: bool,
}

impl Ledger {
    /// Starts the ledger of this invocation. When this returns, the file is on disk.
    ///
    /// The file gets its name only when it is locked and has its header: whoever finds it unlocked knows that its
    /// process is gone, and whoever reads it finds whole lines but for the last.
    pub(crate) fn open(directory: &Path, header: &Header) -> io::Result<Self> {
        create_directory(directory)?;
        let mut file = tempfile::Builder::new().prefix(".").suffix(".tmp").append(true).tempfile_in(directory)?;
        // Some file systems know no locks. A ledger without one is worth more than none: its process is then taken
        // for dead, and its Job, while active, still keeps its objects out of the orphans.
        let _ = file.as_file().try_lock();
        file.write_all(&header.line()?)?;
        file.as_file().sync_all()?;
        let path = directory.join(header.invocation_id.as_str()).with_extension(EXTENSION);
        let file = file.persist_noclobber(&path)?;
        sync_directory(directory)?;
        Ok(Self { path, file, torn: false, lent: false })
    }

    /// Goes on with the ledger of an earlier invocation.
    pub(crate) fn reopen(past: &Past) -> io::Result<Self> {
        let mut file = File::options().append(true).open(past.path())?;
        if past.ends_torn() {
            file.write_all(b"\n")?;
        }
        Ok(Self { path: past.path().to_owned(), file, torn: false, lent: past.live })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a change. An intent is on disk when this returns; of anything else a power cut costs only knowledge that
    /// the cluster can be asked for. After a failure, which is returned once, nothing more is written.
    pub(crate) fn append(&mut self, change: &Change) -> io::Result<()> {
        if self.torn {
            return Ok(());
        }
        let written = self.write(change);
        self.torn = written.is_err();
        written
    }

    fn write(&mut self, change: &Change) -> io::Result<()> {
        self.file.write_all(&line(change)?)?;
        match change {
            Change::Intended { .. } => self.file.sync_data(),
            Change::Confirmed { .. } | Change::Withdrawn { .. } | Change::Left { .. } => Ok(()),
        }
    }

    /// Removes the file of an invocation of which nothing is left.
    pub(crate) fn remove(self) -> io::Result<()> {
        if self.lent {
            return Ok(());
        }
        drop(self.file);
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn line(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn create_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Elsewhere a directory cannot be opened to be synced, and need not be.
#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
