//! Kubeconfig files as client-go reads and merges them.

use std::ffi::OsString;
use std::path::PathBuf;

use tempfile::TempDir;

use super::file::Kubeconfig;
use super::{Environment, Error};

/// Files of a directory, in their order.
struct Files {
    directory: TempDir,
    paths: Vec<PathBuf>,
}

impl Files {
    fn new(texts: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let mut paths = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let path = directory.path().join(format!("dir{number}")).join("config");
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            paths.push(path);
        }
        Self { directory, paths }
    }

    fn merged(&self) -> Result<Kubeconfig, Error> {
        Kubeconfig::merged(self.paths.clone())
    }
}

fn one(text: &str) -> Result<Kubeconfig, Error> {
    Files::new(&[text]).merged()
}

#[test]
fn r39_several_files_merge_and_the_first_that_has_an_entry_wins_whole() {
    let mut files = Files::new(&[
        "{clusters: [{name: a, cluster: {server: 'https://first'}}], users: [{name: u, user: {token: t}}]}",
        "{current-context: second, clusters: [{name: a, cluster: {server: 'https://second', tls-server-name: x}},
          {name: b, cluster: {server: 'https://b'}}]}",
        "{current-context: third, users: [{name: u, user: {username: me}}]}",
    ]);
    files.paths.insert(1, files.directory.path().join("missing"));
    let merged = files.merged().unwrap();
    assert_eq!(merged.current_context.as_deref(), Some("second"));
    assert_eq!(merged.clusters["a"].server.as_deref(), Some("https://first"));
    assert_eq!(merged.clusters["a"].tls_server_name, None, "entries are not mixed");
    assert_eq!(merged.clusters["b"].server.as_deref(), Some("https://b"));
    assert_eq!(merged.users["u"].username, None);
    assert_eq!(merged.read.len(), 3);
    assert_eq!(merged.missing, [files.directory.path().join("missing")]);
}

#[test]
fn r39_a_file_that_is_named_must_exist_one_of_a_list_need_not() {
    let missing = PathBuf::from("/nonexistent/config");
    assert!(matches!(Kubeconfig::explicit(&missing), Err(Error::NoSuchKubeconfig(path)) if path == missing));
    assert!(Kubeconfig::merged(vec![missing]).unwrap().read.is_empty());
    let directory = TempDir::new().unwrap();
    let unreadable = Kubeconfig::merged(vec![directory.path().to_owned()]);
    assert!(matches!(unreadable, Err(Error::ReadKubeconfig { .. })), "what exists must be readable");
}

#[test]
fn r39_paths_are_relative_to_the_file_that_holds_them() {
    let files = Files::new(&[
        "clusters: [{name: a, cluster: {certificate-authority: ../ca.crt}}]",
        "users:
         - name: u
           user: {client-certificate: c.crt, client-key: keys/c.key, tokenFile: /abs/token,
                  exec: {command: bin/login}}
         - name: v
           user: {exec: {command: login}}",
    ]);
    let merged = files.merged().unwrap();
    let at = |path: &str| files.directory.path().join(path).to_str().map(str::to_owned);
    assert_eq!(merged.clusters["a"].certificate_authority, at("dir0/../ca.crt"));
    let user = &merged.users["u"];
    assert_eq!(user.client_certificate, at("dir1/c.crt"));
    assert_eq!(user.client_key, at("dir1/keys/c.key"));
    assert_eq!(user.token_file.as_deref(), Some("/abs/token"));
    let command = |user: &str| merged.users[user].exec.as_ref().unwrap().command.clone();
    assert_eq!(Some(command("u")), at("dir1/bin/login"));
    assert_eq!(command("v"), "login", "a bare command is looked up in PATH");
}

#[test]
fn r39_kubeconfig_lists_files_and_home_has_one() {
    let list = std::env::join_paths(["/a/config", "", "/b/config"]).unwrap();
    let files = |variables: &[(&str, &OsString)]| {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.to_str().unwrap())).collect();
        Environment::of(&variables).kubeconfig_files()
    };
    let home = OsString::from("/home/me");
    assert_eq!(files(&[("KUBECONFIG", &list), ("HOME", &home)]), [PathBuf::from("/a/config"), "/b/config".into()]);
    assert_eq!(files(&[("KUBECONFIG", &OsString::new()), ("HOME", &home)]), [PathBuf::from("/home/me/.kube/config")]);
    assert_eq!(files(&[]), [PathBuf::from(".kube/config")], "as for kubectl");
}

#[test]
fn r39_odd_but_valid_files_are_read() {
    for empty in ["", "# nothing\n", "---\n", "{}", "null"] {
        assert!(one(empty).unwrap().clusters.is_empty(), "{empty:?}");
    }
    let nulls =
        "{clusters: null, contexts: null, users: [{name: u, user: null}], current-context: null, preferences: {}}";
    let config = one(nulls).unwrap();
    assert!(config.current_context.is_none() && config.users.contains_key("u"));
    let json = r#"{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":
        {"server":"https://x","insecure-skip-tls-verify":null,"extensions":[{"name":"e","extension":{"a":[1]}}]}}]}"#;
    let config = one(json).unwrap();
    assert!(!config.clusters["c"].insecure_skip_tls_verify);
    assert_eq!(config.clusters["c"].extensions[0].extension, serde_json::json!({"a": [1]}));
    assert!(
        one("clusters: [{name: c, cluster: {insecure-skip-tls-verify: yes}}]").unwrap().clusters["c"]
            .insecure_skip_tls_verify
    );
    let unknown = one("{colour: red, contexts: [{name: x, context: {user: u, shape: round}}]}").unwrap();
    assert_eq!(unknown.contexts["x"].user.as_deref(), Some("u"));
    let anchors = one("{contexts: [{name: x, context: &x {user: u}}, {name: y, context: *x}]}").unwrap();
    assert_eq!(anchors.contexts["y"].user.as_deref(), Some("u"));
}

#[test]
fn r39_a_file_that_powershell_wrote_is_read() {
    let files = Files::new(&[""]);
    let mut bytes = vec![0xFF, 0xFE];
    bytes.extend("current-context: größe".encode_utf16().flat_map(u16::to_le_bytes));
    std::fs::write(&files.paths[0], bytes).unwrap();
    assert_eq!(files.merged().unwrap().current_context.as_deref(), Some("größe"));
    std::fs::write(&files.paths[0], "\u{feff}current-context: x").unwrap();
    assert_eq!(files.merged().unwrap().current_context.as_deref(), Some("x"));
}

#[test]
fn r39_what_is_not_a_kubeconfig_is_refused_by_name() {
    for (text, part) in [
        ("{a: b: c", "not valid"),
        ("[1, 2]", "not valid"),
        ("kind: Secret", "Secret of v1"),
        ("apiVersion: v2", "Config of v2"),
        ("clusters: [{name: c}, {name: c}]", "two cluster entries named \"c\""),
        ("users: [{name: u}, {name: u}]", "two user entries named \"u\""),
        ("contexts: [{name: x}, {name: x}]", "two context entries named \"x\""),
        ("users: [{name: u, user: {exec: {interactiveMode: Sometimes}}}]", "not valid"),
    ] {
        let files = Files::new(&[text]);
        let error = files.merged().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(error.contains(files.paths[0].to_str().unwrap()), "{error}");
    }
}

#[test]
fn r43_a_broken_kubeconfig_is_not_quoted() {
    let text = "users:\n- name: u\n  user: {token: planted-secret, client-key-data: planted-secret\n- oops: [";
    let error = one(text).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("planted-secret"), "{error}");
    let read = one("users: [{name: u, user: {token: planted-secret, password: planted-secret}}]").unwrap();
    assert!(!format!("{read:?}").contains("planted-secret"));
}
