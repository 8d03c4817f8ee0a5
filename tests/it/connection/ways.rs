//! Situations in which a proxy or a credential plugin stands between.

use super::situations::{Situation, env, flags};

/// Proxies and credential plugins.
pub(super) const WAYS: &[Situation] = &[
    // The cluster's proxy.
    flags("--context proxied", "alice@a via proxy(me:p@ss) to 127.0.0.1 in default"),
    flags(
        "--context proxied --server https://localhost:{B}",
        "alice@b sni=localhost via proxy(me:p@ss) to localhost in default",
    ),
    flags("--context proxied-plain", "nobody@plain via proxy(me:pw) to api.test http/1.1 in default"),
    flags("--context tls-proxied", "alice@a via tls-proxy to 127.0.0.1 in default"),
    flags("--context socks", "alice@a sni=localhost via socks to localhost in default"),
    flags("--context socks-login", "alice@a via socks(me:pw) to 127.0.0.1 in default"),
    flags("--context bad-proxy", "fails"),
    flags("--context away-proxy", "fails"),
    env("NO_PROXY=*", "--context proxied", "alice@a via proxy(me:p@ss) to 127.0.0.1 in default"),
    env("HTTPS_PROXY=http://127.0.0.1:1", "--context socks", "alice@a sni=localhost via socks to localhost in default"),
    // The environment's proxies.
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY}", "", "alice@a in team"),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY}", "--server https://localhost:{A}", "alice@a sni=localhost in team"),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY}",
        "--context host",
        "alice@a sni=localhost via proxy to api.{LONG}.test in default",
    ),
    env(
        "https_proxy=http://127.0.0.1:{PROXY}",
        "--context host",
        "alice@a sni=localhost via proxy to api.{LONG}.test in default",
    ),
    env("HTTPS_PROXY=http://127.0.0.1:1 https_proxy=http://127.0.0.1:{PROXY}", "--context host", "fails"),
    env(
        "HTTPS_PROXY=127.0.0.1:{PROXY}",
        "--context host",
        "alice@a sni=localhost via proxy to api.{LONG}.test in default",
    ),
    env(
        "HTTPS_PROXY=http://you:word@127.0.0.1:{PROXY}",
        "--context host",
        "alice@a sni=localhost via proxy(you:word) to api.{LONG}.test in default",
    ),
    env(
        "HTTPS_PROXY=socks5://127.0.0.1:{SOCKS}",
        "--context host",
        "alice@a sni=localhost via socks to api.{LONG}.test in default",
    ),
    // kubectl takes any scheme that it does not know for http.
    Situation {
        plugin: Some("fails"),
        ..env(
            "HTTPS_PROXY=ftp://127.0.0.1:{PROXY}",
            "--context host",
            "alice@a sni=localhost via proxy to api.{LONG}.test in default",
        )
    },
    env("HTTPS_PROXY=", "--context host", "fails"),
    env("HTTP_PROXY=http://127.0.0.1:{PROXY}", "--context host", "fails"),
    env(
        "HTTP_PROXY=http://127.0.0.1:{PROXY}",
        "--context plain-host",
        "nobody@plain via proxy to api.{LONG}.test http/1.1 in default",
    ),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY}", "--context plain-host", "fails"),
    env("ALL_PROXY=http://127.0.0.1:{PROXY}", "--context host", "fails"),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY}",
        "--context dotted",
        "alice@a sni=localhost via proxy to localhost. in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY}",
        "--context any-address",
        "alice@a sni=localhost via proxy to 0.0.0.0 in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY}",
        "--context any-address-6",
        "alice@a sni=localhost via proxy to [::] in default",
    ),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=*", "--context any-address", "alice@a sni=localhost in default"),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=0.0.0.0",
        "--context any-address",
        "alice@a sni=localhost in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=0.0.0.0:{A}",
        "--context any-address",
        "alice@a sni=localhost in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=0.0.0.0:443",
        "--context any-address",
        "alice@a sni=localhost via proxy to 0.0.0.0 in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=0.0.0.0/8",
        "--context any-address",
        "alice@a sni=localhost in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=10.0.0.0/8,0.0.0.0/32",
        "--context any-address",
        "alice@a sni=localhost in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=10.0.0.0/8",
        "--context any-address",
        "alice@a sni=localhost via proxy to 0.0.0.0 in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=::/0",
        "--context any-address",
        "alice@a sni=localhost via proxy to 0.0.0.0 in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=localhost",
        "--context dotted",
        "alice@a sni=localhost via proxy to localhost. in default",
    ),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=test", "--context host", "fails"),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=.test", "--context host", "fails"),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY={LONG}.test", "--context host", "fails"),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=*.{LONG}.test", "--context host", "fails"),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=.api.{LONG}.test",
        "--context host",
        "alice@a sni=localhost via proxy to api.{LONG}.test in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=api",
        "--context host",
        "alice@a sni=localhost via proxy to api.{LONG}.test in default",
    ),
    env(
        "HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=est",
        "--context host",
        "alice@a sni=localhost via proxy to api.{LONG}.test in default",
    ),
    env("HTTPS_PROXY=http://127.0.0.1:{PROXY} NO_PROXY=.test no_proxy=other", "--context host", "fails"),
    // Credential plugins.
    flags("--context plugin", "from-plugin@a in default"),
    flags("--context plugin-told", "from-plugin@a sni=localhost in default"),
    flags("--context plugin-by-path", "from-plugin@a in default"),
    flags("--context plugin-v1beta1", "from-plugin@a in default"),
    flags("--context plugin-if-available", "from-plugin@a in default"),
    flags("--context plugin-always", "fails"),
    flags("--context plugin-no-mode", "fails"),
    flags("--context plugin-old", "fails"),
    flags("--context plugin-missing", "fails"),
    flags("--context plugin-fails", "fails"),
    flags("--context plugin-mute", "fails"),
    flags("--context plugin-other", "fails"),
    flags("--context plugin-certificate", "cert:dave@a in default"),
    flags("--context plugin-once", "once@a; renewed@a in default"),
    flags("--context plugin-refused", "fails after refused@a"),
    flags("--context plugin --token eve", "eve@a in default"),
    flags("--context plugin --as jane", "from-plugin@a user=jane in default"),
    flags("--context plugin --server http://127.0.0.1:{PLAIN}", "nobody@plain http/1.1 in default"),
];
