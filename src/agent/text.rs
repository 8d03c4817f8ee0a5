//! The text of a JSON string, made in the place of the JSON: a document of a mebibyte is held once.

use std::ops::Range;

/// Makes JSON, which is valid and has a string at `at`, into that string's text. `None` if an escape is no character.
pub(super) fn of_string(mut json: Vec<u8>, at: Range<usize>) -> Option<Vec<u8>> {
    // Without its quotes. What is written is never longer than what was read.
    let (mut read, end, mut written) = (at.start + 1, at.end - 1, 0);
    while read < end {
        let plain = json[read..end].iter().position(|&byte| byte == b'\\').unwrap_or(end - read);
        json.copy_within(read..read + plain, written);
        (read, written) = (read + plain, written + plain);
        if read < end {
            let (character, len) = unescaped(&json[read..end])?;
            read += len;
            written += character.encode_utf8(&mut json[written..]).len();
        }
    }
    json.truncate(written);
    Some(json)
}

/// The character that an escape at the start stands for, and the escape's length.
fn unescaped(json: &[u8]) -> Option<(char, usize)> {
    let character = match json.get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(json)?;
            // A pair takes two, and only a pair needs the second.
            let second = json.get(6..).filter(|_| char::from_u32(first.into()).is_none()).and_then(unit);
            let mut characters = char::decode_utf16([Some(first), second].into_iter().flatten());
            return Some((characters.next()?.ok()?, if second.is_some() { 12 } else { 6 }));
        }
        &itself => char::from(itself),
    };
    Some((character, 2))
}

/// The UTF-16 unit of an escape like `\u00e9` at the start.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(string: &str) -> Option<String> {
        let json = format!("{{\"before\":[\"\\n\"],\"text\":{string},\"after\":\"\"}}");
        let start = json.find(string).unwrap();
        let text = of_string(json.into_bytes(), start..start + string.len())?;
        Some(String::from_utf8(text).unwrap())
    }

    proptest! {
        #[test]
        fn r26_every_text_comes_back_as_it_was(written: String) {
            let string = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(text(&string), Some(written.clone()));
            let escaped: Vec<_> = written.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            prop_assert_eq!(text(&format!("\"{}\"", escaped.concat())), Some(written));
        }
    }

    #[test]
    fn every_escape_is_known() {
        assert_eq!(text(r#""\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00é😀""#).unwrap(), "\"\\/\u{8}\u{c}\n\r\té😀é😀");
    }

    #[test]
    fn half_a_pair_is_no_text() {
        for half in [r#""\ud83d""#, r#""\ud83dx""#, r#""\ud83d\n""#, r#""\ude00""#, r#""\ud83d\u0041""#] {
            assert_eq!(text(half), None, "{half}");
        }
    }
}
