//! Which proxy stands between client and server: `proxy-url` of the cluster, else the environment's, with Go's rules for
//! `NO_PROXY`.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;

use super::{Environment, Error, Secret};

/// A proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) kind: Kind,
    /// Its address, with scheme and port.
    pub(super) address: Uri,
    pub(super) login: Option<(String, Secret)>,
}

/// How a proxy is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// HTTP or HTTPS: it is asked for a tunnel, or sent requests for plain http.
    Http,
    /// SOCKS 5; it looks names up.
    Socks5,
}

impl Proxy {
    /// The proxy for a server. `proxy_url` is the cluster's, with the name of its entry.
    pub(super) fn choose(
        proxy_url: Option<&str>,
        entry: &str,
        server: &Uri,
        env: &Environment,
    ) -> Result<Option<Self>, Error> {
        if let Some(url) = proxy_url {
            let invalid = || Error::InvalidEntry {
                entry: entry.to_owned(),
                problem: "proxy-url must be http://, https:// or socks5:// with a host".to_owned(),
            };
            return Self::parse(url).map(Some).ok_or_else(invalid);
        }
        let (scheme, variables) = match server.scheme_str() {
            Some("https") => ("https", ["HTTPS_PROXY", "https_proxy"]),
            _ => ("http", ["HTTP_PROXY", "http_proxy"]),
        };
        let set = variables.into_iter().find_map(|name| Some((name, env.text(name)?)));
        let Some((variable, url)) = set else { return Ok(None) };
        let host = server.host().unwrap_or_default();
        let port = server.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let exceptions = env.text("NO_PROXY").or_else(|| env.text("no_proxy")).unwrap_or_default();
        if is_exempt(host, port, exceptions) {
            return Ok(None);
        }
        // A bare host:port is an HTTP proxy.
        let proxy = if url.contains("://") { Self::parse(url) } else { Self::parse(&format!("http://{url}")) };
        proxy.map(Some).ok_or_else(|| Error::InvalidEntry {
            entry: format!("the environment variable {variable}"),
            problem: "it must be the URL of a proxy: http://, https:// or socks5:// with a host".to_owned(),
        })
    }

    fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let (kind, scheme, default_port) = match uri.scheme_str()? {
            "http" => (Kind::Http, "http", 80),
            "https" => (Kind::Http, "https", 443),
            "socks5" | "socks5h" => (Kind::Socks5, "socks5", 1080),
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?;
        let port = uri.port_u16().unwrap_or(default_port);
        let address = format!("{scheme}://{host}:{port}").parse().ok()?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let login = match uri.authority()?.as_str().rsplit_once('@') {
            Some((login, _)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                Some((decode(user)?, Secret::from(decode(password)?)))
            }
            None => None,
        };
        Some(Self { kind, address, login })
    }

    /// What an HTTP proxy is shown.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.login.as_ref()?;
        let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Whether a server is reached without the environment's proxy: loopback always, and what `NO_PROXY` lists.
fn is_exempt(host: &str, port: u16, exceptions: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let ip: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || ip.is_some_and(|ip| ip.to_canonical().is_loopback()) {
        return true;
    }
    exceptions.split(',').map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| matches(&entry, &host, ip, port))
}

/// Whether one entry of `NO_PROXY` covers a server.
fn matches(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(network) = entry.parse::<IpNet>() {
        return ip.is_some_and(|ip| network.contains(&ip.to_canonical()));
    }
    let (name, wanted_port) = split_port(entry);
    if name.is_empty() || wanted_port.is_some_and(|wanted| wanted != port.to_string()) {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip.is_some_and(|ip| ip.to_canonical() == address.to_canonical());
    }
    if ip.is_some() {
        return false;
    }
    // `.example.com` and `*.example.com` leave out the domain itself.
    let suffix = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    match suffix.strip_prefix('.') {
        Some(_) => host.ends_with(suffix),
        None => host == suffix || host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// `name:port`, `[address]:port`, or a name or address alone.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (entry, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r39_no_proxy_is_matched_as_go_matches_it() {
        let cases = [
            // (NO_PROXY, host, port, exempt)
            ("", "api.example.com", 443, false),
            ("", "localhost", 443, true),
            ("", "127.0.0.1", 6443, true),
            ("", "127.8.9.1", 6443, true),
            ("", "[::1]", 6443, true),
            ("", "localhost.example.com", 443, false),
            ("*", "api.example.com", 443, true),
            ("*", "10.0.0.1", 443, true),
            ("example.com", "example.com", 443, true),
            ("example.com", "api.example.com", 443, true),
            ("example.com", "badexample.com", 443, false),
            (".example.com", "api.example.com", 443, true),
            (".example.com", "example.com", 443, false),
            ("*.example.com", "api.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("EXAMPLE.com", "API.Example.COM", 443, true),
            ("foo.org, example.com ,bar.org", "api.example.com", 443, true),
            ("foo.org,,", "api.example.com", 443, false),
            ("example.com:443", "api.example.com", 443, true),
            ("example.com:6443", "api.example.com", 443, false),
            (".example.com:6443", "api.example.com", 6443, true),
            ("10.0.0.1", "10.0.0.1", 443, true),
            ("10.0.0.1", "10.0.0.11", 443, false),
            ("10.0.0.1:443", "10.0.0.1", 443, true),
            ("10.0.0.1:443", "10.0.0.1", 6443, false),
            ("10.0.0.0/8", "10.1.2.3", 443, true),
            ("10.0.0.0/8", "11.1.2.3", 443, false),
            ("10.0.0.0/8", "host10.example.com", 443, false),
            ("10.1.2.3/8", "10.9.9.9", 443, true),
            ("fd00::/8", "[fd00::1]", 443, true),
            ("fd00::1", "[fd00::1]", 443, true),
            ("[fd00::1]:443", "[fd00::1]", 443, true),
            ("[fd00::1]:443", "[fd00::1]", 6443, false),
            (":443", "api.example.com", 443, false),
            ("0.1", "10.0.0.1", 443, false),
        ];
        for (exceptions, host, port, exempt) in cases {
            assert_eq!(is_exempt(host, port, exceptions), exempt, "{host}:{port} with NO_PROXY={exceptions:?}");
        }
    }

    fn chosen(proxy_url: Option<&str>, server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let (server, env) = (server.parse().unwrap(), Environment::of(variables));
        let proxy = Proxy::choose(proxy_url, "cluster \"c\"", &server, &env).unwrap();
        proxy.map(|proxy| proxy.address.to_string())
    }

    #[test]
    fn r39_the_proxy_is_the_clusters_else_that_of_the_environment_for_the_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:1"), ("HTTP_PROXY", "http://plain:2")];
        let https = "https://api.example.com";
        let some = |address: &str| Some(address.to_owned());
        assert_eq!(chosen(None, https, &[]), None);
        assert_eq!(chosen(None, https, &both), some("http://secure:1/"));
        assert_eq!(chosen(None, "http://api.example.com", &both), some("http://plain:2/"));
        assert_eq!(chosen(None, "https://127.0.0.1:6443", &both), None);
        assert_eq!(chosen(Some("socks5://mine"), https, &both), some("socks5://mine:1080/"));
        assert_eq!(
            chosen(Some("http://mine"), "https://127.0.0.1:6443", &both),
            some("http://mine:80/"),
            "the cluster's proxy holds for loopback too"
        );
        let upper = [("HTTPS_PROXY", "http://upper:1"), ("https_proxy", "http://lower:2")];
        assert_eq!(chosen(None, https, &upper), some("http://upper:1/"), "the upper-case variable wins");
        assert_eq!(chosen(None, https, &upper[1..]), some("http://lower:2/"));
        assert_eq!(chosen(None, https, &[("HTTPS_PROXY", "proxy.corp:3128")]), some("http://proxy.corp:3128/"));
        assert_eq!(chosen(None, https, &[("HTTPS_PROXY", "https://proxy.corp")]), some("https://proxy.corp:443/"));
        let exempt = [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", ".example.com")];
        assert_eq!(chosen(None, https, &exempt), None);
        let other = [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "x"), ("no_proxy", ".example.com")];
        assert_eq!(chosen(None, https, &other), some("http://p:1/"), "the upper-case variable wins");
    }

    #[test]
    fn r39_a_proxys_login_is_decoded() {
        let proxy = Proxy::parse("http://me:p%40ss%3Aword@proxy:3128").unwrap();
        assert_eq!(proxy.address.to_string(), "http://proxy:3128/");
        let expected = format!("Basic {}", STANDARD.encode("me:p@ss:word"));
        assert_eq!(proxy.authorization().unwrap(), expected.as_str());
        assert!(!format!("{proxy:?}").contains("p@ss"));
    }

    #[test]
    fn r39_an_unusable_proxy_is_refused_by_name() {
        let server = "https://api.example.com".parse().unwrap();
        let env = Environment::of(&[("HTTPS_PROXY", "ftp://proxy")]);
        let error = Proxy::choose(None, "", &server, &env).unwrap_err().to_string();
        assert!(error.contains("HTTPS_PROXY"), "{error}");
        for url in ["ftp://proxy", "proxy:3128", "http://"] {
            let error = Proxy::choose(Some(url), "cluster \"c\"", &server, &env).unwrap_err().to_string();
            assert!(error.contains("cluster \"c\"") && error.contains("proxy-url"), "{error}");
        }
    }
}
