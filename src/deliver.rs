//! Hands the document to the user: a file that is whole or untouched, or stdout (R27). These calls block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Invalid};

/// Links that are followed before a path counts as a loop, as Linux does it.
const MAX_LINKS: usize = 40;

/// What stands where the document shall go.
enum Target {
    /// Our own stdout by another name.
    Stdout,
    /// A pipe, device or socket: written into, never replaced.
    Special,
    /// A file, or room for one.
    File {
        /// Where the rename must land: behind any links.
        path: PathBuf,
        /// Of the file that stands there, if there is one.
        permissions: Option<fs::Permissions>,
    },
}

/// Finds out early, before the cluster is touched, that a document could not be written to `path`.
///
/// # Errors
/// [`Invalid`] naming the path and what is wrong with it.
pub(crate) fn check_destination(flag: &'static str, path: &Path) -> Result<(), Invalid> {
    let check = || match Target::of(path)? {
        Target::Stdout | Target::Special => Ok(()),
        Target::File { path, permissions } => {
            if permissions.is_some() {
                // A rename would replace a write-protected file that an ordinary write could not change.
                OpenOptions::new().write(true).open(&path)?;
            }
            temporary_beside(&path).map(drop)
        }
    };
    check().map_err(|error| Invalid::new(flag, path.display().to_string(), rule(path, &error)))
}

/// Whether what is written to the one replaces what was written to the other.
pub(crate) fn are_the_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| match Target::of(path).ok()? {
        Target::File { path, .. } => {
            // The folder exists, or it is no target; the file itself may not yet.
            let folder = std::path::absolute(&path).ok()?.parent()?.canonicalize().ok()?;
            Some(folder.join(path.file_name()?))
        }
        Target::Stdout | Target::Special => None,
    };
    file(one).is_some_and(|one| Some(one) == file(other))
}

/// Writes the document to a file. Until the rename at the end, an existing file is what it was; its permissions stay.
/// A link is followed; what is no regular file is written into.
///
/// # Errors
/// [`Error::Write`], or [`Error::StdoutClosed`] if the path is another name of a closed stdout.
pub(crate) fn to_file(path: &Path, document: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.display().to_string(), source };
    match Target::of(path).map_err(failed)? {
        Target::Stdout => to_stdout(document),
        Target::Special => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(document)).map_err(failed)
        }
        Target::File { path: target, permissions } => replace(&target, permissions, document).map_err(failed),
    }
}

/// Writes the document to stdout, all of it.
///
/// # Errors
/// [`Error::StdoutClosed`] if its reader went away, else [`Error::Write`].
pub(crate) fn to_stdout(document: &[u8]) -> Result<(), Error> {
    on_stdout(|stdout| stdout.write_all(document))
}

/// Writes to stdout what is made only while it is written.
///
/// # Errors
/// As [`to_stdout`].
pub(crate) fn on_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    write(&mut stdout).and_then(|()| stdout.flush()).map_err(|source| match source.kind() {
        ErrorKind::BrokenPipe => Error::StdoutClosed,
        _ => Error::Write { path: "stdout".to_owned(), source },
    })
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        if path == Path::new("/dev/stdout") {
            return Ok(Self::Stdout);
        }
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(ErrorKind::IsADirectory.into());
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => {
                Ok(Self::File { path: fs::canonicalize(path)?, permissions: Some(found.permissions()) })
            }
            Ok(_) => Ok(Self::Special),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self::File { path: behind_links(path)?, permissions: None })
            }
            Err(error) => Err(error),
        }
    }
}

/// The place that a link names although nothing stands there yet.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = parent(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kubectl-aicr-").suffix(".tmp");
    #[cfg(unix)]
    // What any new file gets; the umask narrows it.
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(parent(path))
}

fn replace(path: &Path, permissions: Option<fs::Permissions>, document: &[u8]) -> io::Result<()> {
    let mut temporary = temporary_beside(path)?;
    temporary.write_all(document)?;
    if let Some(permissions) = permissions {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    // Makes the rename itself last. The document is in place already, so a file system that cannot do this is no
    // failure.
    let _ = File::open(parent(path)).and_then(|directory| directory.sync_all());
    Ok(())
}

fn rule(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::IsADirectory => "is a directory; name a file in it".to_owned(),
        ErrorKind::NotFound => format!("the directory {} does not exist; create it first", parent(path).display()),
        ErrorKind::NotADirectory => format!("{} is not a directory", parent(path).display()),
        _ => format!("cannot be written: {error}"),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn r27_a_file_is_replaced_by_a_rename_and_keeps_its_permissions() {
        let directory = directory();
        let path = directory.path().join("out.yaml");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        check_destination("--output", &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        to_file(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(mode(&path), 0o604);
        assert_ne!(fs::metadata(&path).unwrap().ino(), before);
        assert_eq!(names(directory.path()), ["out.yaml"]);
    }

    #[test]
    fn r27_a_new_file_has_the_permissions_of_any_new_file() {
        let directory = directory();
        let path = directory.path().join("out.yaml");
        check_destination("--output", &path).unwrap();
        assert_eq!(names(directory.path()), Vec::<String>::new());
        to_file(&path, b"document").unwrap();
        fs::write(directory.path().join("other"), "").unwrap();
        assert_eq!(mode(&path), mode(&directory.path().join("other")));
    }

    #[test]
    fn r27_interrupted_write_leaves_the_old_file() {
        let directory = directory();
        let path = directory.path().join("out.yaml");
        fs::write(&path, "old").unwrap();
        // The same steps up to the rename, which an interruption keeps from happening.
        let mut temporary = temporary_beside(&path).unwrap();
        temporary.write_all(b"half").unwrap();
        assert_eq!(names(directory.path()).len(), 2);
        drop(temporary);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(directory.path()), ["out.yaml"]);
    }

    #[test]
    fn a_link_stays_and_its_target_is_written() {
        let directory = directory();
        let (real, link, chain) =
            (directory.path().join("real"), directory.path().join("link"), directory.path().join("chain"));
        symlink("real", &link).unwrap();
        symlink("link", &chain).unwrap();
        for text in ["first, the target is missing", "then it stands there"] {
            check_destination("--output", &chain).unwrap();
            to_file(&chain, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&real).unwrap(), text);
        }
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
        assert_eq!(fs::read_link(&chain).unwrap(), Path::new("link"));
        symlink("loop", directory.path().join("loop")).unwrap();
        let error = check_destination("--output", &directory.path().join("loop")).unwrap_err().to_string();
        assert!(error.contains("symbolic links"), "{error}");
    }

    #[test]
    fn pipes_and_devices_are_written_into() {
        let directory = directory();
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        check_destination("--output", &fifo).unwrap();
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).unwrap()
        });
        to_file(&fifo, b"document").unwrap();
        assert_eq!(reader.join().unwrap(), "document");
        check_destination("--output", Path::new("/dev/null")).unwrap();
        to_file(Path::new("/dev/null"), b"document").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let error = to_file(Path::new("/dev/full"), b"document").unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: "), "{error}");
    }

    #[test]
    fn destinations_that_cannot_be_written_are_refused_early() {
        let directory = directory();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "").unwrap();
        for (path, rule) in [
            (directory.path().to_owned(), "is a directory; name a file in it"),
            (at("new/"), "is a directory; name a file in it"),
            (at("missing/out.yaml"), "missing does not exist; create it first"),
            (at("file/out.yaml"), "file is not a directory"),
        ] {
            let error = check_destination("--output", &path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid value \"{}\" for --output: ", path.display())), "{error}");
            assert!(error.ends_with(rule), "{error}");
            assert!(matches!(to_file(&path, b"x"), Err(Error::Write { .. })));
        }
        assert_eq!(names(directory.path()), ["file"]);
    }
}
