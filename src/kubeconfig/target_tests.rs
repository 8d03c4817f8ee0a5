//! kubectl's rules about flags and kubeconfig, each with a case.

use std::path::Path;

use tempfile::TempDir;

use super::target::{Login, Target, namespace};
use super::test_server::Pki;
use super::{ConnectionFlags, Environment, Error};

/// Two clusters, two users, two contexts.
const CONFIG: &str = "
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c1
  cluster: {server: 'https://one.test:6443', tls-server-name: inner.test}
- name: c2
  cluster: {server: 'https://two.test', disable-compression: true}
- name: ca
  cluster: {server: 'https://ca.test', certificate-authority: ca.crt}
- name: unsafe
  cluster: {server: 'https://unsafe.test', insecure-skip-tls-verify: true}
- name: both
  cluster: {server: 'https://both.test', insecure-skip-tls-verify: true, certificate-authority: ca.crt}
- name: empty
  cluster: {}
users:
- name: u1
  user: {token: t1}
- name: u2
  user: {username: me, password: pw}
- name: file
  user: {tokenFile: token, as: someone, as-groups: [g1, g2], as-user-extra: {k: [v1]}}
- name: both
  user: {token: t3, tokenFile: token}
- name: cert
  user: {client-certificate: client.crt, client-key: client.key}
- name: certonly
  user: {client-certificate: client.crt}
- name: tokenandpassword
  user: {token: t, username: me, password: pw}
- name: exec
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}}
- name: gcp
  user: {auth-provider: {name: gcp}}
contexts:
- name: one
  context: {cluster: c1, user: u1, namespace: ns1}
- name: two
  context: {cluster: c2, user: u2}
- name: nocluster
  context: {cluster: gone, user: u1}
- name: nouser
  context: {cluster: c1, user: gone}
- name: anonymous
  context: {cluster: c1}
";

/// A directory with the file, certificates and a token.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let pki = Pki::new();
        let (certificate, key) = pki.issue(&["client.test"]);
        let files = [
            ("config", CONFIG),
            ("ca.crt", &pki.ca_pem()),
            ("client.crt", &certificate),
            ("client.key", &key),
            ("token", " from-file\n"),
        ];
        for (name, text) in files {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        Self(home)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn resolve(&self, flags: ConnectionFlags) -> Result<Target, Error> {
        Target::resolve(&ConnectionFlags { kubeconfig: Some(self.path("config")), ..flags }, &Environment::of(&[]))
    }

    fn refused(&self, flags: ConnectionFlags) -> String {
        self.resolve(flags).unwrap_err().to_string()
    }
}

fn flags(set: impl FnOnce(&mut ConnectionFlags)) -> ConnectionFlags {
    let mut flags = ConnectionFlags::default();
    set(&mut flags);
    flags
}

#[expect(clippy::unnecessary_wraps, reason = "flags are optional")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// The login as one word.
fn login(target: &Target) -> String {
    match &target.login {
        Login::Anonymous => "anonymous".into(),
        Login::Basic { username, password } => format!("{username}:{}", password.expose()),
        Login::Token(token) => format!("token {}", token.expose()),
        Login::TokenFile { path, fallback } => {
            let name = Path::new(path).file_name().unwrap().to_str().unwrap();
            format!("file {name} else {:?}", fallback.as_ref().map(|token| token.expose().to_owned()))
        }
        Login::Exec(plugin) => format!("exec {}", plugin.exec.command),
        Login::Oidc(_) => "oidc".into(),
    }
}

#[test]
fn r39_flags_choose_and_override_context_cluster_user_and_server() {
    let home = Home::new();
    #[rustfmt::skip]
    let cases: [(ConnectionFlags, &str, &str, Option<&str>); 14] = [
        (flags(|_| ()), "https://one.test:6443/", "token t1", Some("one")),
        (flags(|f| f.context = some("")), "https://one.test:6443/", "token t1", Some("one")),
        (flags(|f| f.context = some("two")), "https://two.test/", "me:pw", Some("two")),
        (flags(|f| f.cluster = some("c2")), "https://two.test/", "token t1", Some("one")),
        (flags(|f| f.user = some("u2")), "https://one.test:6443/", "me:pw", Some("one")),
        (flags(|f| f.server = some("https://flag.test/base/")), "https://flag.test/base/", "token t1", Some("one")),
        (flags(|f| f.token = Some("t9".into())), "https://one.test:6443/", "token t9", Some("one")),
        (flags(|f| f.token = Some("".into())), "https://one.test:6443/", "token t1", Some("one")),
        // A file with a token wins over --token, which then is but a fallback.
        (flags(|f| { f.user = some("file"); f.token = Some("t9".into()) }), "https://one.test:6443/", "file token else Some(\"t9\")", Some("one")),
        (flags(|f| f.user = some("both")), "https://one.test:6443/", "file token else Some(\"t3\")", Some("one")),
        (flags(|f| f.user = some("exec")), "https://one.test:6443/", &format!("exec {}", home.path("login")), Some("one")),
        // --token wins over a plugin.
        (flags(|f| { f.user = some("exec"); f.token = Some("t9".into()) }), "https://one.test:6443/", "token t9", Some("one")),
        (flags(|f| f.context = some("anonymous")), "https://one.test:6443/", "anonymous", Some("anonymous")),
        // The flag says all that the missing entry could.
        (flags(|f| { f.context = some("nocluster"); f.server = some("https://flag.test") }), "https://flag.test/", "token t1", Some("nocluster")),
    ];
    for (flags, server, expected, context) in cases {
        let given = format!("{flags:?}");
        let target = home.resolve(flags).unwrap();
        assert_eq!(target.server.to_string(), server, "{given}");
        assert_eq!(login(&target), expected, "{given}");
        assert_eq!(target.context.as_deref(), context, "{given}");
    }
}

#[test]
fn r39_a_server_without_scheme_is_http_and_is_sent_no_credentials() {
    let home = Home::new();
    for (server, expected) in [
        ("flag.test:8080", "http://flag.test:8080/"),
        ("10.0.0.1:6443", "http://10.0.0.1:6443/"),
        ("flag.test", "http://flag.test/"),
        ("http://flag.test", "http://flag.test/"),
        ("[::1]:8080/", "http://[::1]:8080/"),
    ] {
        let target = home
            .resolve(flags(|f| {
                f.server = some(server);
                f.user = some("cert");
                f.token = Some("t9".into());
                f.impersonate = some("someone");
            }))
            .unwrap();
        assert_eq!(target.server.to_string(), expected);
        assert_eq!(login(&target), "anonymous");
        assert!(target.identity.is_none());
        assert_eq!(target.impersonation.unwrap().user, "someone");
    }
}

#[test]
fn r39_a_token_flag_does_not_remove_the_client_certificate() {
    let home = Home::new();
    let target = home
        .resolve(flags(|f| {
            f.user = some("cert");
            f.token = Some("t9".into());
        }))
        .unwrap();
    assert!(target.identity.is_some());
    assert_eq!(login(&target), "token t9");
}

#[test]
fn r39_certificate_authority_and_insecure_exclude_one_another_on_one_level_only() {
    let home = Home::new();
    let trust = |set: fn(&mut ConnectionFlags)| {
        home.resolve(flags(set)).map(|it| (it.trust.roots.is_some(), it.trust.insecure))
    };
    assert_eq!(trust(|f| f.cluster = some("ca")).unwrap(), (true, false));
    assert_eq!(
        trust(|f| {
            f.cluster = some("ca");
            f.insecure_skip_tls_verify = true;
        })
        .unwrap(),
        (false, true)
    );
    let authority = home.path("ca.crt");
    let with_ca = |cluster: &str, insecure| {
        let given = flags(|f| {
            f.cluster = some(cluster);
            f.certificate_authority = Some(authority.clone());
            f.insecure_skip_tls_verify = insecure;
        });
        home.resolve(given).map(|it| (it.trust.roots.is_some(), it.trust.insecure))
    };
    assert_eq!(with_ca("unsafe", false).unwrap(), (true, false));
    for error in [trust(|f| f.cluster = some("both")), with_ca("ca", true)] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("insecure-skip-tls-verify"), "{error}");
    }
}

#[test]
fn r39_tls_server_name_belongs_to_the_server_that_it_was_written_for() {
    let home = Home::new();
    let name =
        |given: ConnectionFlags| home.resolve(given).unwrap().trust.server_name.map(|name| name.to_str().into_owned());
    assert_eq!(name(flags(|_| ())).as_deref(), Some("inner.test"));
    assert_eq!(name(flags(|f| f.tls_server_name = some("flag.test"))).as_deref(), Some("flag.test"));
    assert_eq!(name(flags(|f| f.server = some("https://other.test"))), None);
    let both = flags(|f| {
        f.server = some("https://other.test");
        f.tls_server_name = some("x.test");
    });
    assert_eq!(name(both).as_deref(), Some("x.test"));
}

#[test]
fn r39_impersonation_flags_lie_over_the_users() {
    let home = Home::new();
    let who = home.resolve(flags(|f| f.user = some("file"))).unwrap().impersonation.unwrap();
    assert_eq!((who.user.as_str(), who.groups.join("+").as_str()), ("someone", "g1+g2"));
    let given = flags(|f| {
        f.user = some("file");
        f.impersonate = some("other");
        f.impersonate_uid = some("7");
        f.impersonate_groups = vec!["a,b".into(), "c".into()];
        f.impersonate_user_extra = vec!["x=1".into(), "x=2=3".into(), "y=".into()];
    });
    let who = home.resolve(given).unwrap().impersonation.unwrap();
    assert_eq!((who.user.as_str(), who.uid.as_deref()), ("other", Some("7")));
    assert_eq!(who.groups, ["a,b", "c"], "one group a flag, commas are part of it");
    let extra: Vec<_> = who.extra.into_iter().collect();
    assert_eq!(
        extra,
        [
            ("k".to_owned(), vec!["v1".to_owned()]),
            ("x".to_owned(), vec!["1".to_owned(), "2=3".to_owned()]),
            ("y".to_owned(), vec![String::new()]),
        ]
    );
}

#[test]
fn r39_what_cannot_be_used_is_refused_by_name() {
    let home = Home::new();
    let config = home.path("config");
    let config = config.as_str();
    #[rustfmt::skip]
    let cases: Vec<(ConnectionFlags, Vec<&str>)> = vec![
        (flags(|f| f.context = some("zzz")), vec!["context", "\"zzz\"", "--context", config, "anonymous, nocluster, nouser, one, two"]),
        (flags(|f| f.cluster = some("zzz")), vec!["cluster", "\"zzz\"", "--cluster", config]),
        (flags(|f| f.user = some("zzz")), vec!["user", "\"zzz\"", "--user", config]),
        (flags(|f| f.context = some("nocluster")), vec!["cluster", "\"gone\"", "context \"nocluster\"", config]),
        (flags(|f| f.context = some("nouser")), vec!["user", "\"gone\"", "context \"nouser\"", config]),
        (flags(|f| f.cluster = some("empty")), vec!["cluster \"empty\"", config, "no server"]),
        (flags(|f| f.user = some("certonly")), vec!["user \"certonly\"", config, "client-key"]),
        (flags(|f| f.user = some("tokenandpassword")), vec!["user \"tokenandpassword\"", "token", "password"]),
        (flags(|f| { f.user = some("u2"); f.token = Some("t".into()) }), vec!["user \"u2\"", "token", "password"]),
        (flags(|f| f.user = some("gcp")), vec!["user \"gcp\"", "\"gcp\"", "exec"]),
        (flags(|f| f.impersonate_groups = vec!["g".into()]), vec!["--as"]),
        (flags(|f| f.impersonate_uid = some("7")), vec!["--as"]),
        (flags(|f| f.impersonate_user_extra = vec!["novalue".into()]), vec!["--as-user-extra", "novalue", "key=value"]),
        (flags(|f| f.certificate_authority = some("/nonexistent/ca")), vec!["--certificate-authority", "/nonexistent/ca"]),
        (flags(|f| f.certificate_authority = some(config)), vec!["--certificate-authority", "no certificate"]),
        (flags(|f| { f.user = some("cert"); f.client_key = some(config) }), vec!["--client-key", "no private key"]),
        (flags(|f| { f.user = some("cert"); f.client_certificate = some("/nonexistent/crt") }), vec!["--client-certificate", "/nonexistent/crt"]),
        (flags(|f| f.tls_server_name = some("no such name")), vec!["tls-server-name", "no such name"]),
        (flags(|f| f.server = some("ftp://x")), vec!["--server", "ftp://x", "https://"]),
        (flags(|f| f.server = some("foo/bar")), vec!["--server", "foo/bar", "host:port"]),
        (flags(|f| f.server = some("https://")), vec!["--server"]),
        (flags(|f| f.server = some("https://me:pw@x")), vec!["--server", "user name or password"]),
    ];
    for (flags, parts) in cases {
        let given = format!("{flags:?}");
        let error = home.refused(flags);
        for part in parts {
            assert!(error.contains(part), "{given}: {error} lacks {part}");
        }
        assert!(!error.contains("pw@"), "{error}");
    }
}

#[test]
fn r39_the_namespace_is_the_flags_then_the_contexts_then_the_pods_then_default() {
    let home = Home::new();
    let pod = TempDir::new().unwrap();
    std::fs::write(pod.path().join("token"), "t").unwrap();
    std::fs::write(pod.path().join("namespace"), "pod-ns\n").unwrap();
    let outside = Environment::of(&[]);
    let inside = Environment::of(&[]).in_pod(pod.path());
    let named = Environment::of(&[("POD_NAMESPACE", "named")]).in_pod(pod.path());
    let get = |env: &Environment, context: &str, flag: &str| {
        let given = flags(|f| {
            f.kubeconfig = Some(home.path("config"));
            f.context = some(context);
            f.namespace = some(flag);
        });
        namespace(&given, env).unwrap()
    };
    assert_eq!(get(&inside, "one", "flag"), "flag");
    assert_eq!(get(&inside, "one", ""), "ns1");
    assert_eq!(get(&inside, "two", ""), "pod-ns");
    assert_eq!(get(&named, "two", ""), "named");
    assert_eq!(get(&outside, "two", ""), "default");
    assert_eq!(namespace(&ConnectionFlags::default(), &outside).unwrap(), "default");
    assert!(namespace(&flags(|f| f.kubeconfig = some("/nonexistent")), &outside).is_err());
}

#[test]
fn r39_in_cluster_configuration_needs_that_no_kubeconfig_and_no_connection_flag_is_given() {
    let home = Home::new();
    let pod = TempDir::new().unwrap();
    std::fs::write(pod.path().join("token"), "pod-token").unwrap();
    std::fs::copy(home.path("ca.crt"), pod.path().join("ca.crt")).unwrap();
    let inside = Environment::of(&[("HOME", "/nonexistent")]).in_pod(pod.path());

    let target = Target::resolve(&flags(|f| f.namespace = some("x")), &inside).unwrap();
    assert_eq!(target.server.to_string(), "https://10.0.0.1:443/");
    assert!(target.trust.roots.is_some());
    assert_eq!(login(&target), "file token else None");

    let config = home.path("config");
    let with_file = Environment::of(&[("KUBECONFIG", &config)]).in_pod(pod.path());
    let target = Target::resolve(&ConnectionFlags::default(), &with_file).unwrap();
    assert_eq!(target.server.to_string(), "https://one.test:6443/");

    let target = Target::resolve(&flags(|f| f.server = some("https://flag.test")), &inside).unwrap();
    assert_eq!((target.server.to_string().as_str(), login(&target).as_str()), ("https://flag.test/", "anonymous"));
    let error = Target::resolve(&flags(|f| f.token = Some("t".into())), &inside).unwrap_err();
    assert!(matches!(error, Error::NoConfiguration { .. }), "{error}");
}

#[test]
fn r39_without_any_configuration_the_error_says_what_was_looked_for() {
    let outside = |variables: &[(&str, &str)]| {
        Target::resolve(&ConnectionFlags::default(), &Environment::of(variables)).unwrap_err().to_string()
    };
    let list = std::env::join_paths(["/nonexistent/a", "/nonexistent/b"]).unwrap();
    let error = outside(&[]);
    assert!(error.contains("there is no .kube/config"), "{error}");
    let error = outside(&[("KUBECONFIG", ":")]);
    assert!(error.contains("KUBECONFIG names no file"), "{error}");
    let error = outside(&[("HOME", "/nonexistent")]);
    assert!(error.contains("/nonexistent/.kube/config") && error.contains("--kubeconfig"), "{error}");
    let error = outside(&[("KUBECONFIG", list.to_str().unwrap())]);
    assert!(error.contains("/nonexistent/a, /nonexistent/b"), "{error}");
    let target = Target::resolve(&ConnectionFlags::default(), &Environment::of(&[("KUBERNETES_MASTER", "m:1")]));
    assert_eq!(target.unwrap().server.to_string(), "http://m:1/");
}

#[test]
fn r39_a_kubeconfig_without_current_context_names_the_contexts() {
    let home = Home::new();
    let path = home.path("other");
    std::fs::write(&path, CONFIG.replace("current-context: one", "")).unwrap();
    let error = Target::resolve(&flags(|f| f.kubeconfig = Some(path.clone())), &Environment::of(&[])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&path) && text.contains("nouser, one, two") && text.contains("--context"), "{text}");
}
