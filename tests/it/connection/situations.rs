//! The situations: flags, environment, and where these lead.

/// A situation. Words in braces are ports and paths of the rig; `NAME=(unset)` takes a variable away.
pub(super) struct Situation {
    pub(super) flags: &'static str,
    pub(super) env: &'static str,
    /// Where it leads kubectl: `CREDENTIALS@SERVER in NAMESPACE`.
    pub(super) kubectl: &'static str,
    /// Where it leads the plugin, if elsewhere.
    pub(super) plugin: Option<&'static str>,
}

pub(super) const fn flags(flags: &'static str, kubectl: &'static str) -> Situation {
    Situation { flags, env: "", kubectl, plugin: None }
}

pub(super) const fn env(env: &'static str, flags: &'static str, kubectl: &'static str) -> Situation {
    Situation { flags, env, kubectl, plugin: None }
}

/// One in which the plugin means to do otherwise.
const fn other(flags: &'static str, kubectl: &'static str, plugin: &'static str) -> Situation {
    Situation { flags, env: "", kubectl, plugin: Some(plugin) }
}

/// Flags, files and identities.
pub(super) const CHOICES: &[Situation] = &[
    // Contexts, clusters, users, namespaces.
    flags("", "alice@a in team"),
    flags("--context second", "bob@b in second"),
    flags("--context=second", "bob@b in second"),
    flags("--context second --context main", "alice@a in team"),
    flags("--context bare", "alice@a in default"),
    flags("--context empty-namespace", "alice@a in default"),
    flags("--context nowhere", "fails"),
    flags("--context=", "alice@a in team"),
    flags("--cluster b", "alice@b in team"),
    flags("--cluster gone", "fails"),
    flags("--cluster b --server https://127.0.0.1:{A}", "alice@a in team"),
    flags("--user bob", "bob@a in team"),
    flags("--user gone", "fails"),
    flags("--user=", "alice@a in team"),
    flags("--cluster b --user bob", "bob@b in team"),
    flags("--context second --cluster a", "bob@a in second"),
    flags("--context no-cluster", "fails"),
    flags("--context no-cluster --cluster a", "alice@a in default"),
    flags("--context lost-cluster", "fails"),
    flags("--context lost-cluster --cluster b", "alice@b in default"),
    flags("--context lost-cluster --server https://127.0.0.1:{A} --insecure-skip-tls-verify", "alice@a in default"),
    flags("--context lost-user", "fails"),
    flags("--context lost-user --user bob", "bob@a in default"),
    flags("--context lost-user --token eve", "eve@a in default"),
    flags("-n flagged", "alice@a in flagged"),
    flags("-nflagged", "alice@a in flagged"),
    flags("-n=flagged", "alice@a in flagged"),
    flags("--namespace flagged --context second", "bob@b in flagged"),
    flags("--namespace=", "alice@a in team"),
    // Servers.
    flags("--server https://127.0.0.1:{B}", "alice@b in team"),
    flags("-s https://127.0.0.1:{B}", "alice@b in team"),
    flags("--server=", "alice@a in team"),
    flags("--server https://127.0.0.1:{B}/", "alice@b in team"),
    flags("--server https://127.0.0.1:{B}/deep/er", "alice@b/deep/er in team"),
    flags("--server https://127.0.0.1:{B}/deep/er/?a=b", "alice@b/deep/er in team"),
    flags("--context below", "alice@a/clusters/c-1 in default"),
    flags("--server http://127.0.0.1:{PLAIN}", "nobody@plain http/1.1 in team"),
    flags("--server 127.0.0.1:{PLAIN}", "nobody@plain http/1.1 in team"),
    flags("--server localhost:{PLAIN}", "nobody@plain http/1.1 in team"),
    flags("--server 127.0.0.1:{A}", "fails"),
    flags("--server https://127.0.0.1:{PLAIN}", "fails"),
    flags("--server https://127.0.0.1:1", "fails"),
    flags("--server https://localhost:{A}", "alice@a sni=localhost in team"),
    flags("--server ftp://127.0.0.1:{A}", "fails"),
    flags("--server https://", "fails"),
    // A password in an address would stand in logs and in the ledger.
    other("--server https://me:pw@127.0.0.1:{A}", "me:pw@a in team", "fails"),
    flags("--server 127.0.0.1:{PLAIN}/below", "fails"),
    flags("--context plain", "nobody@plain http/1.1 in default"),
    flags("--context plain --token eve", "nobody@plain http/1.1 in default"),
    flags("--context plain --user gone", "fails"),
    // Tokens and passwords.
    flags("--token eve", "eve@a in team"),
    flags("--token=", "alice@a in team"),
    flags("--token refused", "fails after refused@a"),
    flags("--context refused", "fails after refused@a"),
    flags("--context token-file", "from-file@a in default"),
    flags("--context token-file --token eve", "from-file@a in default"),
    flags("--context token-and-file", "from-file@a in default"),
    flags("--context password", "me:pw@a in default"),
    flags("--context password --token eve", "fails"),
    flags("--context password-and-token", "fails"),
    flags("--context removed-provider", "fails"),
    flags("--context oidc", "{ID_TOKEN}@a in default"),
    // kubectl asks for a name and a password; a run may have nobody to ask.
    other("--context no-user", "fails", "nobody@a in default"),
    flags("--context no-user --token eve", "eve@a in default"),
    other("--context no-user --as jane", "fails", "nobody@a user=jane in default"),
    // Client certificates.
    flags("--context by-file", "cert:carol@a in default"),
    flags("--context by-data", "cert:carol@a in default"),
    flags("--context keyless", "fails"),
    flags("--context keyless --client-key .kube/pki/carol.key", "cert:carol@a in default"),
    flags("--context by-data --token eve", "cert:carol+eve@a in default"),
    flags("--context certificate-and-token", "cert:carol+alice@a in default"),
    flags("--context certificate-and-plugin", "cert:carol@a in default"),
    flags("--client-certificate .kube/pki/carol.crt --client-key .kube/pki/carol.key", "cert:carol+alice@a in team"),
    flags(
        "--context no-user --client-certificate .kube/pki/carol.crt --client-key .kube/pki/carol.key",
        "cert:carol@a in default",
    ),
    flags(
        "--context by-data --client-certificate .kube/pki/dave.crt --client-key .kube/pki/dave.key",
        "cert:dave@a in default",
    ),
    flags("--context by-data --client-certificate .kube/pki/dave.crt", "fails"),
    flags("--context by-data --client-key .kube/pki/dave.key", "fails"),
    flags("--client-certificate .kube/pki/carol.crt", "fails"),
    flags("--client-key .kube/pki/carol.key", "alice@a in team"),
    flags("--client-certificate pki/carol.crt --client-key pki/carol.key", "fails"),
    // Trust.
    flags("--context untrusted", "fails"),
    flags("--context untrusted --insecure-skip-tls-verify", "alice@a in default"),
    flags("--context untrusted --insecure-skip-tls-verify=false", "fails"),
    flags("--context untrusted --certificate-authority .kube/pki/ca.crt", "alice@a in default"),
    flags("--context trusting", "alice@a in default"),
    flags("--context trusting --certificate-authority .kube/pki/other-ca.crt", "fails"),
    flags("--context trusting --certificate-authority .kube/pki/ca.crt", "alice@a in default"),
    flags("--context contradicting", "fails"),
    flags("--insecure-skip-tls-verify", "alice@a in team"),
    flags("--insecure-skip-tls-verify --certificate-authority .kube/pki/ca.crt", "fails"),
    flags("--certificate-authority .kube/pki/other-ca.crt", "fails"),
    flags("--certificate-authority .kube/pki/absent.crt", "fails"),
    flags("--certificate-authority .kube/pki/token", "fails"),
    flags("--certificate-authority pki/ca.crt", "fails"),
    // Names in certificates.
    flags("--tls-server-name localhost", "alice@a sni=localhost in team"),
    flags("--tls-server-name other.test", "fails"),
    flags("--tls-server-name other.test --insecure-skip-tls-verify", "alice@a sni=other.test in team"),
    flags("--context named", "alice@a sni=kubernetes.default.svc in default"),
    flags("--context named --tls-server-name localhost", "alice@a sni=localhost in default"),
    flags("--context named --server https://127.0.0.1:{B}", "alice@b in default"),
    flags("--context misnamed", "fails"),
    flags("--context misnamed --server https://127.0.0.1:{A}", "alice@a in default"),
    flags("--context misnamed --cluster a", "alice@a in default"),
    // Impersonation.
    flags("--as jane", "alice@a user=jane in team"),
    flags("--as jane --as-group dev", "alice@a group=dev user=jane in team"),
    flags("--as jane --as-group dev --as-group ops", "alice@a group=dev group=ops user=jane in team"),
    flags("--as jane --as-group dev,ops", "alice@a group=dev,ops user=jane in team"),
    flags("--as jane --as-uid 8", "alice@a uid=8 user=jane in team"),
    flags("--as jane --as-user-extra k=v --as-user-extra k=w", "alice@a extra-k=v extra-k=w user=jane in team"),
    flags("--as jane --as-user-extra a/b=v=w", "alice@a extra-a%2fb=v=w user=jane in team"),
    // kubectl drops what it cannot read, and with it a part of the identity.
    other("--as jane --as-user-extra k", "alice@a user=jane in team", "fails"),
    flags("--as-group dev", "fails"),
    flags("--as-uid 8", "fails"),
    flags("--as-user-extra k=v", "fails"),
    flags("--as=", "alice@a in team"),
    flags("--as system:serviceaccount:team:robot", "alice@a user=system:serviceaccount:team:robot in team"),
    flags(
        "--context on-behalf",
        "alice@a extra-example.org%2fteam=gpu extra-scopes=edit extra-scopes=view group=dev group=ops uid=7 user=jane in default",
    ),
    flags(
        "--context on-behalf --as john",
        "alice@a extra-example.org%2fteam=gpu extra-scopes=edit extra-scopes=view group=dev group=ops uid=7 user=john in default",
    ),
    flags(
        "--context on-behalf --as-group qa",
        "alice@a extra-example.org%2fteam=gpu extra-scopes=edit extra-scopes=view group=qa uid=7 user=jane in default",
    ),
    flags(
        "--context on-behalf --as-uid 8",
        "alice@a extra-example.org%2fteam=gpu extra-scopes=edit extra-scopes=view group=dev group=ops uid=8 user=jane in default",
    ),
    flags(
        "--context on-behalf --as-user-extra scopes=all",
        "alice@a extra-example.org%2fteam=gpu extra-scopes=all extra-scopes=edit extra-scopes=view group=dev group=ops uid=7 user=jane in default",
    ),
    flags(
        "--context on-behalf --as-user-extra more=all",
        "alice@a extra-example.org%2fteam=gpu extra-more=all extra-scopes=edit extra-scopes=view group=dev group=ops uid=7 user=jane in default",
    ),
    flags("--context groups-alone", "fails"),
    flags("--context groups-alone --as jane", "alice@a group=dev user=jane in default"),
    flags("--context by-data --as jane", "cert:carol@a user=jane in default"),
    flags("--context plain --as jane", "nobody@plain user=jane http/1.1 in default"),
    // What does not choose anybody.
    flags("--disable-compression", "alice@a uncompressed in team"),
    flags("--disable-compression=false", "alice@a in team"),
    flags("--context uncompressed", "alice@a uncompressed in default"),
    flags("--cache-dir elsewhere/cache", "alice@a in team"),
    flags("--request-timeout 10s", "alice@a in team"),
    flags("--request-timeout 10", "alice@a in team"),
    flags("--request-timeout 0", "alice@a in team"),
    flags("--request-timeout=", "alice@a in team"),
    flags("--request-timeout soon", "fails"),
    // For kubectl a negative time is none at all.
    other("--request-timeout -5s", "alice@a in team", "fails"),
    flags("--no-such-flag", "fails"),
    // Kubeconfig files.
    flags("--kubeconfig elsewhere/config", "bob@b in second"),
    flags("--kubeconfig elsewhere/config --context by-file", "cert:carol@a in default"),
    flags("--kubeconfig {HOME}/elsewhere/config", "bob@b in second"),
    flags("--kubeconfig elsewhere/absent", "fails"),
    flags("--kubeconfig elsewhere/broken", "fails"),
    flags("--kubeconfig elsewhere/empty", "fails"),
    flags("--kubeconfig elsewhere/undecided", "fails"),
    flags("--kubeconfig elsewhere/undecided --context second", "bob@b in second"),
    flags("--kubeconfig elsewhere/undecided --cluster a --user alice", "alice@a in default"),
    flags("--kubeconfig=", "alice@a in team"),
    env("KUBECONFIG=elsewhere/config", "", "bob@b in second"),
    env("KUBECONFIG=elsewhere/absent", "", "fails"),
    env("KUBECONFIG=elsewhere/broken", "", "fails"),
    env("KUBECONFIG=elsewhere/broken:.kube/config", "", "fails"),
    env("KUBECONFIG=elsewhere/first:.kube/config", "", "bob@b in second"),
    env("KUBECONFIG=.kube/config:elsewhere/config", "", "alice@a in team"),
    env("KUBECONFIG=elsewhere/absent:elsewhere/config", "", "bob@b in second"),
    env("KUBECONFIG=elsewhere/config:elsewhere/absent", "", "bob@b in second"),
    env("KUBECONFIG=:elsewhere/config:", "", "bob@b in second"),
    env("KUBECONFIG=elsewhere/empty:elsewhere/config", "", "bob@b in second"),
    env("KUBECONFIG=elsewhere/override:.kube/config", "", "another-alice@a in team"),
    env("KUBECONFIG=.kube/config:elsewhere/override", "", "alice@a in team"),
    env("KUBECONFIG=elsewhere/config", "--kubeconfig .kube/config", "alice@a in team"),
    env("KUBECONFIG=elsewhere/config", "--kubeconfig elsewhere/absent", "fails"),
    env("HOME={HOME}/elsewhere", "", "fails"),
    env(
        "HOME={HOME}/elsewhere",
        "--server https://127.0.0.1:{A} --insecure-skip-tls-verify --token eve",
        "eve@a in default",
    ),
    env("HOME=(unset)", "", "alice@a in team"),
    env("HOME=(unset) KUBECONFIG=.kube/config", "", "alice@a in team"),
    env("HOME={HOME}/elsewhere KUBERNETES_MASTER=http://127.0.0.1:{PLAIN}", "", "nobody@plain http/1.1 in default"),
    env("KUBERNETES_MASTER=http://127.0.0.1:{PLAIN}", "", "alice@a in team"),
    // A pod without a service account's token.
    env("HOME={HOME}/elsewhere KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT={A}", "", "fails"),
    env("KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT={B}", "", "alice@a in team"),
    env(
        "KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT={B} POD_NAMESPACE=pod",
        "--context bare",
        "alice@a in default",
    ),
];
