//! `kubectl aicr roles`: RBAC for a `ServiceAccount` that runs the agent, for an administrator to look at and to apply.

use std::fmt::{Display, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};

use crate::agent::manifests::text;
use crate::agent::roles::{self, RoleManifest, RoleOptions, service_account_role_manifests};
use crate::agent::{rules, run_id};
use crate::cli::confirm::confirm;
use crate::deliver::to_stdout;
use crate::error::{Error, Invalid};

/// What `roles` takes beside the connection flags, of which it uses the namespace.
#[derive(Args, Debug)]
pub(crate) struct RolesArgs {
    /// Service account that runs the agent; it may be made later
    #[arg(long, value_name = "NAME")]
    service_account: String,
    /// Also grant what network discovery needs: this changes the cluster
    #[arg(long)]
    discover_network: bool,
    /// Write to stdout instead of to files
    #[arg(short, long, value_enum, conflicts_with = "output_dir")]
    output: Option<Format>,
    /// Directory to make for the files [default: ./snapshot-rbac-<run id>]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// Write without asking
    #[arg(short, long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// Renders, asks, writes. Contacts no cluster.
pub(crate) async fn run(args: RolesArgs, namespace: String) -> Result<(), Error> {
    let options =
        RoleOptions { namespace, service_account: args.service_account, discover_network: args.discover_network };
    let manifests = service_account_role_manifests(&options)?;
    let directory = args.output_dir.unwrap_or_else(|| format!("snapshot-rbac-{}", run_id::generate()).into());
    if args.output.is_none() {
        // Before the question, so that nobody answers it in vain.
        refuse_existing(&directory)?;
    }
    if !args.yes {
        confirm(&explanation(&options, &manifests), "Write these manifests?").await?;
    }
    match args.output {
        None => {
            write_directory(&directory, &manifests)?;
            let _ = writeln!(io::stderr(), "{}", next_steps(&directory));
            Ok(())
        }
        Some(format) => to_stdout(rendered(format, &manifests).as_bytes()),
    }
}

fn rendered(format: Format, manifests: &[RoleManifest]) -> String {
    match format {
        Format::Yaml => manifests.iter().map(RoleManifest::yaml).collect::<Vec<_>>().join("---\n"),
        Format::Json => text::json_list(manifests.iter().map(RoleManifest::body)),
    }
}

fn explanation(options: &RoleOptions, manifests: &[RoleManifest]) -> String {
    let RoleOptions { namespace, service_account, discover_network } = options;
    let mut text = format!(
        "Manifests that let the snapshot agent run as ServiceAccount {namespace}/{service_account}. They grant it\n"
    );
    list(&mut text, &format!("in namespace {namespace}"), rules::NAMESPACE);
    list(&mut text, "in the whole cluster, to read", rules::cluster(false));
    if *discover_network {
        let heading = "in the whole cluster, for network discovery: THIS CHANGES THE CLUSTER";
        list(&mut text, heading, rules::DISCOVER_NETWORK);
    }
    list(&mut text, "by way of", manifests.iter().map(RoleManifest::object));
    text.push_str(roles::shared_account(*discover_network));
    text.push_str("\nNothing is applied.");
    text
}

fn list<T: Display>(text: &mut String, heading: &str, items: impl IntoIterator<Item = T>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {heading}");
    for item in items {
        let _ = writeln!(text, "    - {item}");
    }
}

fn next_steps(directory: &Path) -> String {
    let shown = shell_word(&directory.display().to_string());
    format!(
        "wrote {shown}/ with 4 manifests; nothing has been applied\n  look:   cat {shown}/*.yaml\n  apply:  kubectl apply \
         -f {shown}/\n  revoke: kubectl delete -f {shown}/"
    )
}

/// The text as a shell reads it back as one word.
fn shell_word(text: &str) -> String {
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@%".contains(&b)) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn refuse_existing(directory: &Path) -> Result<(), Invalid> {
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.file_name().is_some() => Ok(()),
        _ => Err(Invalid::new(
            "--output-dir",
            directory.display().to_string(),
            "must name a directory that does not exist yet, in one that does",
        )),
    }
}

/// Writes beside the target and renames: the directory is there whole, or not at all.
fn write_directory(directory: &Path, manifests: &[RoleManifest]) -> Result<(), Error> {
    let failed = |source| Error::Write { path: directory.display().to_string(), source };
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".snapshot-rbac-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As for any new directory, the umask decides.
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    let unfinished = builder.tempdir_in(parent).map_err(failed)?;
    for manifest in manifests {
        let path = unfinished.path().join(manifest.file_name());
        let written = File::create_new(path).and_then(|mut file| {
            file.write_all(manifest.yaml().as_bytes())?;
            file.sync_all()
        });
        written.map_err(failed)?;
    }
    // Renaming would take the place of an empty directory that someone made while the question stood.
    refuse_existing(directory)?;
    fs::rename(unfinished.path(), directory).map_err(failed)?;
    // It has its own name now: there is nothing left to take away.
    let _ = unfinished.keep();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests() -> Vec<RoleManifest> {
        service_account_role_manifests(&options(false)).unwrap()
    }

    fn options(discover_network: bool) -> RoleOptions {
        RoleOptions { namespace: "gpu".to_owned(), service_account: "irsa-sa".to_owned(), discover_network }
    }

    fn entries(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn r14_a_new_directory_holds_the_four_files_and_nothing_stays_beside_it() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("rbac");
        write_directory(&target, &manifests()).unwrap();
        assert_eq!(entries(parent.path()), ["rbac"]);
        assert_eq!(
            entries(&target),
            ["01-role.yaml", "02-rolebinding.yaml", "03-clusterrole.yaml", "04-clusterrolebinding.yaml"]
        );
        for manifest in manifests() {
            assert_eq!(fs::read_to_string(target.join(manifest.file_name())).unwrap(), manifest.yaml());
        }
    }

    #[test]
    fn r14_whatever_stands_at_the_directory_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let empty = parent.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "x").unwrap();
        for target in [&empty, &file, &parent.path().join("..")] {
            let error = write_directory(target, &manifests()).unwrap_err();
            assert_eq!(error.exit_code(), crate::error::exit::INVALID, "{error}");
        }
        assert_eq!(entries(parent.path()), ["empty", "file"]);
        assert!(entries(&empty).is_empty());
    }

    #[test]
    fn r14_a_failure_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        // A second file of the same name cannot be made: the fourth write fails.
        let mut manifests = manifests();
        manifests[3] = manifests[0].clone();
        let error = write_directory(&parent.path().join("rbac"), &manifests).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert!(entries(parent.path()).is_empty());
        let error = write_directory(&parent.path().join("absent/rbac"), &manifests).unwrap_err();
        assert!(error.to_string().contains("absent/rbac"), "{error}");
    }

    #[test]
    fn a_directory_with_a_space_is_one_word_of_the_next_command() {
        assert_eq!(shell_word("a/b-1"), "a/b-1");
        assert_eq!(shell_word("it's here"), r"'it'\''s here'");
    }

    #[test]
    fn r14_stdout_forms_hold_the_same_objects() {
        let yaml = rendered(Format::Yaml, &manifests());
        let from_yaml: Vec<serde_json::Value> = serde_saphyr::from_multiple(&yaml).unwrap();
        let json: serde_json::Value = serde_json::from_str(&rendered(Format::Json, &manifests())).unwrap();
        assert_eq!(json["items"].as_array().unwrap(), &from_yaml);
        assert_eq!(from_yaml, manifests().iter().map(|manifest| manifest.body().clone()).collect::<Vec<_>>());
    }

    #[test]
    fn r13_the_question_says_what_is_granted_to_whom_and_where() {
        let options = options(true);
        let manifests = service_account_role_manifests(&options).unwrap();
        insta::assert_snapshot!(explanation(&options, &manifests));
    }
}
