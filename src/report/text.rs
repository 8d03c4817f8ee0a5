//! Text from outside, made safe for a terminal.

use std::borrow::Cow;

/// Takes out what a terminal would obey instead of show: escape sequences, other control characters, and the marks
/// that reorder text. Line ends and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_harmful) {
        clean.push_str(&rest[..at]);
        rest = after_control(&rest[at..]);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The line below a message that says what to do next.
pub(crate) fn next_line(step: &str) -> String {
    format!("  next: {step}\n")
}

fn is_harmful(c: char) -> bool {
    let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

/// What follows the control character at the start, or the whole colour or cursor sequence that it begins. Other
/// sequences lose only their first character: nothing visible may be swallowed with them.
fn after_control(text: &str) -> &str {
    let mut chars = text.chars();
    let first = chars.next();
    let single = chars.as_str();
    let parameters = match first {
        Some('\u{1b}') => single.strip_prefix('['),
        Some('\u{9b}') => Some(single),
        _ => None,
    };
    let is_final = |c: char| ('@'..='~').contains(&c);
    parameters
        .map(|text| text.trim_start_matches(|c: char| (' '..='?').contains(&c)))
        .and_then(|text| text.strip_prefix(is_final))
        .unwrap_or(single)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_whole_sequences_go() {
        for (from, to) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[Hcleared", "cleared"),
            ("\u{9b}31mred", "red"),
            ("a\rb\u{8}c\u{7}d\u{0}e\u{7f}f\u{85}g", "abcdefg"),
            ("\u{1b}]0;title\u{7}after", "]0;titleafter"),
            ("cut \u{1b}[", "cut ["),
            ("cut \u{1b}[12", "cut [12"),
            ("cut \u{1b}", "cut "),
            ("ü\u{1b}[3\u{fc}x", "ü[3üx"),
            ("a\u{202e}b\u{2066}c\u{2028}d", "abcd"),
        ] {
            assert_eq!(harmless(from), to, "{from:?}");
        }
    }

    #[test]
    fn harmless_text_is_not_copied() {
        assert!(matches!(harmless("größer, 日本語\n"), Cow::Borrowed(_)));
    }
}
