//! kubectl's connection flags as plain data.

use std::time::Duration;

use super::{Error, Secret};

/// The time a single call may take when `--request-timeout` is not given (R39).
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// kubectl's connection flags, one field a flag. An empty value counts as not given, as in kubectl.
#[derive(Debug, Clone, Default)]
pub struct ConnectionFlags {
    /// `--kubeconfig`: the only file to read; it must exist.
    pub kubeconfig: Option<String>,
    /// `--context`: the context to use instead of the file's `current-context`.
    pub context: Option<String>,
    /// `--cluster`: the cluster entry to use instead of the context's.
    pub cluster: Option<String>,
    /// `--user`: the user entry to use instead of the context's.
    pub user: Option<String>,
    /// `-n`, `--namespace`.
    pub namespace: Option<String>,
    /// `-s`, `--server`: address of the API server; without a scheme it means http.
    pub server: Option<String>,
    /// `--token`: bearer token.
    pub token: Option<Secret>,
    /// `--as`: user to impersonate.
    pub impersonate: Option<String>,
    /// `--as-group`: groups to impersonate, one a flag, never split at commas.
    pub impersonate_groups: Vec<String>,
    /// `--as-uid`: UID to impersonate.
    pub impersonate_uid: Option<String>,
    /// `--as-user-extra`: `key=value` pairs to impersonate; a key may come again.
    pub impersonate_user_extra: Vec<String>,
    /// `--certificate-authority`: file with the roots to trust.
    pub certificate_authority: Option<String>,
    /// `--client-certificate`: file with the client's certificate.
    pub client_certificate: Option<String>,
    /// `--client-key`: file with the client's key.
    pub client_key: Option<String>,
    /// `--insecure-skip-tls-verify`.
    pub insecure_skip_tls_verify: bool,
    /// `--tls-server-name`: the name that the server's certificate must carry.
    pub tls_server_name: Option<String>,
    /// `--request-timeout`: bound of a single call, as text (`30`, `30s`, `1m30s`; `0` means none).
    pub request_timeout: Option<String>,
    /// `--disable-compression`: do not ask for compressed answers.
    pub disable_compression: bool,
}

/// A flag's value, unless it is missing or empty.
pub(super) fn given(flag: Option<&String>) -> Option<&str> {
    flag.map(String::as_str).filter(|value| !value.is_empty())
}

impl ConnectionFlags {
    /// Whether a flag chooses a server or an identity. If so, the in-cluster configuration is not used.
    pub(super) fn choose_connection(&self) -> bool {
        let texts = [
            &self.kubeconfig,
            &self.context,
            &self.cluster,
            &self.user,
            &self.server,
            &self.impersonate,
            &self.impersonate_uid,
            &self.certificate_authority,
            &self.client_certificate,
            &self.client_key,
            &self.tls_server_name,
        ];
        texts.into_iter().any(|flag| given(flag.as_ref()).is_some())
            || self.token().is_some()
            || self.insecure_skip_tls_verify
            || !self.impersonate_groups.is_empty()
            || !self.impersonate_user_extra.is_empty()
    }

    pub(super) fn token(&self) -> Option<&Secret> {
        self.token.as_ref().filter(|token| !token.expose().is_empty())
    }

    /// The bound of a single call: `None` means unbounded.
    pub(super) fn request_timeout(&self) -> Result<Option<Duration>, Error> {
        let Some(text) = given(self.request_timeout.as_ref()) else {
            return Ok(Some(DEFAULT_REQUEST_TIMEOUT));
        };
        let bound = parse_timeout(text).ok_or_else(|| Error::RequestTimeout(text.to_owned()))?;
        Ok(Some(bound).filter(|bound| !bound.is_zero()))
    }
}

/// A whole number of seconds, or Go's notation of durations (`1h2m3.5s`, `300ms`).
fn parse_timeout(text: &str) -> Option<Duration> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = &rest[letters..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r39_request_timeout_is_read_as_kubectl_reads_it() {
        let cases = [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("30", Some(30_000)),
            ("30s", Some(30_000)),
            ("1m", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            (".5s", Some(500)),
            ("+250ms", Some(250)),
            ("1s500ms", Some(1_500)),
            ("-3", None),
            ("-3s", None),
            ("1d", None),
            ("abc", None),
            ("5 s", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("1s2", None),
            ("99999999999999999999", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_timeout(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn r39_request_timeout_bounds_calls_by_30_seconds_unless_given() {
        let timeout = |text: Option<&str>| {
            ConnectionFlags { request_timeout: text.map(Into::into), ..Default::default() }.request_timeout()
        };
        assert_eq!(timeout(None).unwrap(), Some(Duration::from_secs(30)));
        assert_eq!(timeout(Some("")).unwrap(), Some(Duration::from_secs(30)));
        assert_eq!(timeout(Some("0")).unwrap(), None);
        assert_eq!(timeout(Some("5s")).unwrap(), Some(Duration::from_secs(5)));
        let error = timeout(Some("soon")).unwrap_err().to_string();
        assert!(error.contains("--request-timeout") && error.contains("soon"), "{error}");
    }
}
