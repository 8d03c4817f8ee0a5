//! What a plain scalar means: YAML 1.2's core schema.

use crate::snapshot::node::Node;

/// A plain scalar by its spelling. Infinities and NaN, which no JSON reader knows as numbers, stay texts.
pub(super) fn plain(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Node::Null,
        "true" | "True" | "TRUE" => Node::Bool(true),
        "false" | "False" | "FALSE" => Node::Bool(false),
        _ => number(text).map_or_else(|| Node::Text(text.to_owned()), Node::Number),
    }
}

/// The number as JSON spells it, all its digits kept.
fn number(text: &str) -> Option<String> {
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], &unsigned[at..]),
        None => (unsigned, ""),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let has_digits = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    if !has_digits || !decimal(whole) || !decimal(fraction.unwrap_or_default()) || !is_exponent(exponent) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    };
    let (point, fraction) = match fraction {
        Some("") => (".", "0"),
        Some(fraction) => (".", fraction),
        None => ("", ""),
    };
    Some(format!("{sign}{whole}{point}{fraction}{exponent}"))
}

/// `None` also for more digits than any JSON reader takes: such a number stays a text rather than lose some.
fn radix(digits: &str, radix: u32) -> Option<String> {
    digits.chars().all(|c| c.is_digit(radix)).then(|| u128::from_str_radix(digits, radix).ok())?.map(|n| n.to_string())
}

fn decimal(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn is_exponent(text: &str) -> bool {
    let Some(digits) = text.strip_prefix(['e', 'E']) else { return true };
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    !digits.is_empty() && decimal(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_in_jsons_spelling() {
        for (yaml, json) in [
            ("0", "0"),
            ("-0", "-0"),
            ("+7", "7"),
            ("007", "7"),
            ("18446744073709551616123", "18446744073709551616123"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("1.10", "1.10"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("1.", "1.0"),
            ("1e+3", "1e+3"),
            ("1.5E-07", "1.5E-07"),
            ("1e999", "1e999"),
        ] {
            assert_eq!(plain(yaml), Node::Number(json.to_owned()), "{yaml}");
            assert!(serde_json::from_str::<&serde_json::value::RawValue>(json).is_ok(), "{json} is not JSON");
        }
    }

    #[test]
    fn what_only_looks_like_a_number_or_boolean_is_a_text() {
        for text in [
            ".",
            "-",
            "+",
            "e3",
            "1e",
            "1e+",
            "1_000",
            "0x",
            "0xg",
            "0x+1",
            "-0x1",
            "0o8",
            "0b1",
            "1.2.3",
            "10.0.0.1",
            "1:30",
            ".inf",
            "-.INF",
            ".nan",
            "yes",
            "no",
            "on",
            "off",
            "y",
            "tRUE",
            "nUll",
            "0xfffffffffffffffffffffffffffffffff",
        ] {
            assert_eq!(plain(text), Node::Text(text.to_owned()), "{text}");
        }
    }
}
