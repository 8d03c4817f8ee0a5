//! Durations as Go writes them: `90s`, `1m30s`, `1.5h`, `300ms`.

use std::time::Duration;

/// Reads Go's notation; a number needs its unit, and nothing is negative.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = (!rest.is_empty()).then_some(Duration::ZERO)?;
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
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("90s", Some(90_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            (".5s", Some(500)),
            ("+250ms", Some(250)),
            ("1s500ms", Some(1_500)),
            ("", None),
            ("30", None),
            ("-3s", None),
            ("1d", None),
            ("abc", None),
            ("5 s", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("1s2", None),
            ("99999999999999999999h", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
