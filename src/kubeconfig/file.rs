//! Kubeconfig files: their shape, reading and merging, as client-go does it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use serde::{Deserialize, Deserializer};

use super::{Error, Secret};

/// Several kubeconfig files merged into one.
#[derive(Debug, Default)]
pub(super) struct Kubeconfig {
    /// The files that were read.
    pub(super) read: Vec<PathBuf>,
    /// The files that were looked for and do not exist.
    pub(super) missing: Vec<PathBuf>,
    pub(super) current_context: Option<String>,
    pub(super) contexts: BTreeMap<String, Context>,
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) users: BTreeMap<String, User>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Document {
    kind: Option<String>,
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(deserialize_with = "text")]
    current_context: Option<String>,
    clusters: Option<Vec<NamedCluster>>,
    contexts: Option<Vec<NamedContext>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    #[serde(deserialize_with = "value")]
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    #[serde(deserialize_with = "value")]
    name: String,
    context: Option<Context>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    #[serde(deserialize_with = "value")]
    name: String,
    user: Option<User>,
}

/// A context: a cluster, a user and a namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    #[serde(deserialize_with = "text")]
    pub(super) cluster: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) user: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) namespace: Option<String>,
}

/// How to reach a cluster and how to know that it is the right one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Cluster {
    #[serde(deserialize_with = "text")]
    pub(super) server: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) tls_server_name: Option<String>,
    #[serde(deserialize_with = "value")]
    pub(super) insecure_skip_tls_verify: bool,
    #[serde(deserialize_with = "text")]
    pub(super) certificate_authority: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) certificate_authority_data: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) proxy_url: Option<String>,
    #[serde(deserialize_with = "value")]
    pub(super) disable_compression: bool,
    #[serde(deserialize_with = "value")]
    pub(super) extensions: Vec<Extension>,
    /// The file that holds the entry.
    #[serde(skip)]
    pub(super) origin: PathBuf,
}

/// A part of a cluster entry that belongs to a tool; exec plugins are told theirs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extension {
    #[serde(deserialize_with = "value")]
    pub(super) name: String,
    pub(super) extension: serde_json::Value,
}

/// Who the caller is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct User {
    #[serde(deserialize_with = "text")]
    pub(super) client_certificate: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) client_certificate_data: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) client_key: Option<String>,
    #[serde(deserialize_with = "secret")]
    pub(super) client_key_data: Option<Secret>,
    #[serde(deserialize_with = "secret")]
    pub(super) token: Option<Secret>,
    #[serde(rename = "tokenFile", deserialize_with = "text")]
    pub(super) token_file: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) username: Option<String>,
    #[serde(deserialize_with = "secret")]
    pub(super) password: Option<Secret>,
    #[serde(rename = "as", deserialize_with = "text")]
    pub(super) impersonate: Option<String>,
    #[serde(rename = "as-uid", deserialize_with = "text")]
    pub(super) impersonate_uid: Option<String>,
    #[serde(rename = "as-groups", deserialize_with = "value")]
    pub(super) impersonate_groups: Vec<String>,
    #[serde(rename = "as-user-extra", deserialize_with = "value")]
    pub(super) impersonate_user_extra: BTreeMap<String, Vec<String>>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
    /// The file that holds the entry.
    #[serde(skip)]
    pub(super) origin: PathBuf,
}

/// A provider built into the client; only `oidc` is left of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthProvider {
    #[serde(deserialize_with = "value")]
    pub(super) name: String,
    #[serde(deserialize_with = "value")]
    pub(super) config: BTreeMap<String, Secret>,
}

/// A program that prints credentials.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Exec {
    #[serde(deserialize_with = "value")]
    pub(super) api_version: String,
    #[serde(deserialize_with = "value")]
    pub(super) command: String,
    #[serde(deserialize_with = "value")]
    pub(super) args: Vec<String>,
    #[serde(deserialize_with = "value")]
    pub(super) env: Vec<ExecVariable>,
    #[serde(deserialize_with = "text")]
    pub(super) install_hint: Option<String>,
    #[serde(deserialize_with = "value")]
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: Option<InteractiveMode>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExecVariable {
    #[serde(deserialize_with = "value")]
    pub(super) name: String,
    #[serde(deserialize_with = "value")]
    pub(super) value: Secret,
}

/// Whether an exec plugin may ask the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
}

impl Exec {
    /// What kubectl asks of an exec entry.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("exec names no command".to_owned());
        }
        match (self.api_version.as_str(), self.interactive_mode) {
            ("client.authentication.k8s.io/v1", None) => {
                Err("exec needs interactiveMode: Never, IfAvailable or Always".to_owned())
            }
            ("client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1", _) => Ok(()),
            (other, _) => {
                Err(format!("exec has apiVersion {other:?}; it must be client.authentication.k8s.io/v1 or v1beta1"))
            }
        }
    }
}

/// `null` is what a missing field is.
fn value<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Empty text is what a missing field is.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    Ok(text(from)?.map(Secret::from))
}

impl Kubeconfig {
    /// Reads the one file that was named; it must exist.
    pub(super) fn explicit(path: &Path) -> Result<Self, Error> {
        let mut merged = Self::default();
        let text = read(path)?.ok_or_else(|| Error::NoSuchKubeconfig(path.to_owned()))?;
        merged.add(path, &text)?;
        Ok(merged)
    }

    /// Reads a list of files; those that do not exist are skipped.
    pub(super) fn merged(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let mut merged = Self::default();
        for path in paths {
            match read(&path)? {
                Some(text) => merged.add(&path, &text)?,
                None => merged.missing.push(path),
            }
        }
        Ok(merged)
    }

    /// The files that were read, for messages.
    pub(super) fn names(&self) -> String {
        list(&self.read)
    }

    /// Adds a file: what an earlier file has set, stays.
    fn add(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        let document = parse(path, text)?;
        let base =
            std::path::absolute(path).map_err(|source| Error::ReadKubeconfig { path: path.to_owned(), source })?;
        let base = base.parent().unwrap_or(Path::new("")).to_owned();

        self.current_context = self.current_context.take().or(document.current_context);
        let contexts = document.contexts.unwrap_or_default();
        let contexts = contexts.into_iter().map(|it| (it.name, it.context.unwrap_or_default()));
        add_entries(&mut self.contexts, contexts, path, "context")?;

        let clusters = document.clusters.unwrap_or_default();
        let clusters = clusters.into_iter().map(|it| {
            let mut cluster = it.cluster.unwrap_or_default();
            resolve(&base, cluster.certificate_authority.as_mut());
            path.clone_into(&mut cluster.origin);
            (it.name, cluster)
        });
        add_entries(&mut self.clusters, clusters, path, "cluster")?;

        let users = document.users.unwrap_or_default();
        let users = users.into_iter().map(|it| {
            let mut user = it.user.unwrap_or_default();
            path.clone_into(&mut user.origin);
            resolve(&base, user.client_certificate.as_mut());
            resolve(&base, user.client_key.as_mut());
            resolve(&base, user.token_file.as_mut());
            // A bare command is looked up in PATH.
            let command = user.exec.as_mut().map(|exec| &mut exec.command);
            resolve(&base, command.filter(|command| command.contains(MAIN_SEPARATOR)));
            (it.name, user)
        });
        add_entries(&mut self.users, users, path, "user")?;

        self.read.push(path.to_owned());
        Ok(())
    }
}

/// Paths for messages.
pub(super) fn list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// Adds the entries of one file, of which none may come twice; those of earlier files win.
fn add_entries<T>(
    merged: &mut BTreeMap<String, T>,
    entries: impl Iterator<Item = (String, T)>,
    path: &Path,
    kind: &'static str,
) -> Result<(), Error> {
    let mut own = BTreeMap::new();
    for (name, entry) in entries {
        match own.entry(name) {
            Entry::Vacant(place) => {
                place.insert(entry);
            }
            Entry::Occupied(taken) => {
                let name = taken.key().clone();
                return Err(Error::DuplicateEntry { path: path.to_owned(), kind, name });
            }
        }
    }
    for (name, entry) in own {
        merged.entry(name).or_insert(entry);
    }
    Ok(())
}

/// Makes a path absolute that is relative to the file's directory.
fn resolve(base: &Path, reference: Option<&mut String>) {
    if let Some(reference) = reference
        // Taking the path apart drops `.` from it.
        && let Some(absolute) = base.join(reference.as_str()).components().collect::<PathBuf>().to_str()
    {
        absolute.clone_into(reference);
    }
}

fn parse(path: &Path, text: &str) -> Result<Document, Error> {
    let invalid = |cause: String| Error::ParseKubeconfig { path: path.to_owned(), cause };
    // The snippet of a YAML error could show a credential.
    let documents: Vec<Document> =
        serde_saphyr::from_multiple(text).map_err(|error| invalid(error.without_snippet().to_string()))?;
    let document = documents.into_iter().next().unwrap_or_default();
    let kind = document.kind.as_deref().unwrap_or("Config");
    let version = document.api_version.as_deref().unwrap_or("v1");
    if (version, kind) != ("v1", "Config") {
        return Err(invalid(format!("it holds a {kind} of {version}, not a Config of v1")));
    }
    Ok(document)
}

/// The text of a file, or nothing if there is no such file.
fn read(path: &Path) -> Result<Option<String>, Error> {
    let failed = |source| Error::ReadKubeconfig { path: path.to_owned(), source };
    match std::fs::read(path) {
        Ok(bytes) => decode(bytes).map(Some).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// UTF-8, or what PowerShell's `>` writes: UTF-16 with a byte order mark.
fn decode(bytes: Vec<u8>) -> io::Result<String> {
    let text = match bytes.strip_prefix(&[0xFF, 0xFE]) {
        Some(wide) => {
            let units = wide.chunks(2).map(|unit| u16::from_le_bytes([unit[0], *unit.get(1).unwrap_or(&0)]));
            char::decode_utf16(units).collect::<Result<String, _>>().ok()
        }
        None => String::from_utf8(bytes).ok(),
    };
    let text = text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}
