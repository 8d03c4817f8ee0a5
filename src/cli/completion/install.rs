//! The shim `kubectl_complete-aicr`, by which kubectl completes this plugin, and its place on `PATH`.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::PROGRAM;
use crate::error::Error;
use crate::report::text::harmless;

#[cfg(unix)]
const NAME: &str = "kubectl_complete-aicr";
#[cfg(windows)]
const NAME: &str = "kubectl_complete-aicr.cmd";

/// What the shim's file holds. It finds the program by `PATH`, as kubectl does, so that upgrades need no new shim.
#[cfg(unix)]
pub(super) const SHIM: &str = "\
#!/bin/sh
# Completion of `kubectl aicr`: kubectl runs this with the words after `aicr`.
exec kubectl-aicr __complete \"$@\"
";
#[cfg(windows)]
pub(super) const SHIM: &str = "\
@rem Completion of `kubectl aicr`: kubectl runs this with the words after `aicr`.\r
@kubectl-aicr __complete %*\r
";

/// Writes the shim and says where it is.
pub(super) fn shim() -> Result<(), Error> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let path = install(&folders, env::current_exe().ok().as_deref())?;
    let shown = path.display().to_string();
    // Who does not read it still finds the file.
    let _ = writeln!(
        io::stderr(),
        "wrote {}\nkubectl completes `kubectl aicr` now, in shells that load `kubectl completion`; to undo it, remove the file",
        harmless(&shown)
    );
    Ok(())
}

/// Writes the shim beside the program, or into the first folder that can be written to.
fn install(folders: &[PathBuf], program: Option<&Path>) -> Result<PathBuf, Error> {
    let program = program.and_then(|program| program.canonicalize().ok());
    let holds_program = |folder: &&PathBuf| {
        let file = folder.join(PROGRAM).with_extension(env::consts::EXE_EXTENSION);
        program.is_some() && file.canonicalize().ok() == program
    };
    // A relative folder is another one tomorrow.
    let folders = || folders.iter().filter(|folder| folder.is_absolute());
    let beside = folders().filter(holds_program);
    let mut last = None;
    for folder in beside.chain(folders()) {
        let path = folder.join(NAME);
        match write(&path) {
            Ok(()) => return Ok(path),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "it has none".to_owned(), |error| error.to_string());
    Err(Error::Write {
        path: format!("{NAME} into any folder of PATH"),
        source: io::Error::other(format!(
            "{why}; put it there yourself: `kubectl aicr completion kubectl > FOLDER/{NAME}`, and make it executable"
        )),
    })
}

/// Writes the file whole or not at all. A file of somebody else's making is left alone.
fn write(path: &Path) -> io::Result<()> {
    match fs::read(path) {
        Ok(content) if content == SHIM.as_bytes() => return Ok(()),
        Ok(content) if !is_shim(&content) => {
            return Err(io::Error::other(format!("{} is not this program's and is left alone", path.display())));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kubectl_complete-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As for any new program, the umask decides.
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    let mut file = builder.tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(SHIM.as_bytes())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Whether this is a shim of this program, of whatever version.
fn is_shim(content: &[u8]) -> bool {
    String::from_utf8_lossy(content).contains(&format!("{PROGRAM} {}", super::REQUEST))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Folders of a `PATH`, each made.
    fn folders(root: &Path, names: &[&str]) -> Vec<PathBuf> {
        let folders: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
        for folder in &folders {
            fs::create_dir(folder).unwrap();
        }
        folders
    }

    #[test]
    fn r43_the_shim_goes_where_the_program_is_found_even_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let path = folders(root.path(), &["first", "linked", "store"]);
        let program = path[2].join("v1").with_file_name(PROGRAM);
        fs::write(&program, "").unwrap();
        symlink(&program, path[1].join(PROGRAM)).unwrap();
        let written = install(&path[..2], Some(&program)).unwrap();
        assert_eq!(written, path[1].join(NAME));
        assert_eq!(fs::read_to_string(&written).unwrap(), SHIM);
        assert_eq!(fs::metadata(&written).unwrap().permissions().mode() & 0o500, 0o500);
        assert_eq!(fs::read_dir(&path[0]).unwrap().count(), 0);
    }

    #[test]
    fn r43_else_it_goes_into_the_first_folder_that_can_be_written_to() {
        let root = tempfile::tempdir().unwrap();
        let mut path = folders(root.path(), &["first", "second"]);
        path.insert(0, root.path().join("missing"));
        path.insert(0, PathBuf::from("."));
        assert_eq!(install(&path, None).unwrap(), root.path().join("first").join(NAME));
    }

    #[test]
    fn an_older_shim_is_replaced_and_a_file_of_others_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = folders(root.path(), &["only"]);
        let file = path[0].join(NAME);
        fs::write(&file, "#!/bin/bash\nexec kubectl-aicr __complete \"$@\"").unwrap();
        install(&path, None).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), SHIM);

        fs::write(&file, "#!/bin/sh\necho mine").unwrap();
        let error = install(&path, None).unwrap_err().to_string();
        assert!(error.contains("is not this program's") && error.contains("completion kubectl >"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "#!/bin/sh\necho mine");
        assert_eq!(fs::read_dir(&path[0]).unwrap().count(), 1);
    }

    #[test]
    fn without_a_folder_the_error_says_how_to_do_it_by_hand() {
        let error = install(&[], None).unwrap_err().to_string();
        assert!(error.contains("any folder of PATH") && error.contains("it has none"), "{error}");
    }
}
