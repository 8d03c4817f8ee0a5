//! Splits a log's bytes into lines of bounded length.

use std::ops::Range;

/// Longest line shown in one piece. Container runtimes split at 16 KiB, kubelets put the parts together again.
pub(super) const LONGEST_PIECE: usize = 64 * 1024;

/// A line without its end, or a part of one that is too long. Where a line is parted depends on its bytes alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether a line begins with it.
    pub(super) begins: bool,
}

/// The bytes of one stream, as far as they have not been taken.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    start: usize,
    inside: bool,
}

impl Lines {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next piece that is whole.
    pub(super) fn next(&mut self) -> Option<Piece<'_>> {
        let rest = &self.bytes[self.start..];
        let end = rest.iter().take(LONGEST_PIECE + 1).position(|&byte| byte == b'\n');
        let (len, used) = match end {
            Some(end) => (rest[..end].strip_suffix(b"\r").map_or(end, <[u8]>::len), end + 1),
            None if rest.len() > LONGEST_PIECE => {
                let len = before_character(rest, LONGEST_PIECE);
                (len, len)
            }
            None => return None,
        };
        let piece = self.start..self.start + len;
        self.start += used;
        Some(self.piece(piece, end.is_none()))
    }

    /// What stands at the end of a stream without a line end.
    pub(super) fn unfinished(&mut self) -> Option<Piece<'_>> {
        let rest = self.start..self.bytes.len();
        self.start = rest.end;
        (!rest.is_empty()).then(|| self.piece(rest, false))
    }

    fn piece(&mut self, at: Range<usize>, goes_on: bool) -> Piece<'_> {
        let begins = !std::mem::replace(&mut self.inside, goes_on);
        Piece { bytes: &self.bytes[at], begins }
    }
}

/// The last place up to `at` that does not part a UTF-8 character.
fn before_character(bytes: &[u8], at: usize) -> usize {
    let is_inside = |&at: &usize| bytes[at] & 0b1100_0000 == 0b1000_0000;
    (at - 3..=at).rev().find(|at| !is_inside(at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(reads: &[&[u8]]) -> Vec<(String, bool)> {
        let mut lines = Lines::default();
        let mut pieces = Vec::new();
        let text = |piece: Piece<'_>| (String::from_utf8(piece.bytes.to_vec()).unwrap(), piece.begins);
        for read in reads {
            lines.feed(read);
            while let Some(piece) = lines.next() {
                pieces.push(text(piece));
            }
        }
        pieces.extend(lines.unfinished().map(text));
        pieces
    }

    #[test]
    fn lines_are_split_whatever_the_reads() {
        let pieces = split(&[b"on", b"e\r\ntw", b"o\n\nth"]);
        let begins: Vec<_> = ["one", "two", "", "th"].map(|line| (line.to_owned(), true)).into();
        assert_eq!(pieces, begins);
    }

    #[test]
    fn a_long_line_is_parted_at_the_same_places_whatever_the_reads_and_never_inside_a_character() {
        let line = "x".repeat(LONGEST_PIECE - 1) + &"ü".repeat(LONGEST_PIECE + 1) + "\nnext\n";
        let at_once = split(&[line.as_bytes()]);
        let pieces: Vec<&[u8]> = line.as_bytes().chunks(1021).collect();
        assert_eq!(split(&pieces), at_once);
        let begins: Vec<bool> = at_once.iter().map(|(_, begins)| *begins).collect();
        assert_eq!(begins, [true, false, false, false, true]);
        assert!(at_once.iter().all(|(piece, _)| piece.len() <= LONGEST_PIECE));
        assert_eq!(at_once.iter().map(|(piece, _)| piece.as_str()).collect::<String>() + "\n", {
            line.replacen('\n', "", 1)
        });
    }

    #[test]
    fn a_line_that_just_fits_is_one_piece() {
        let line = "x".repeat(LONGEST_PIECE);
        assert_eq!(split(&[line.as_bytes(), b"\n"]), [(line.clone(), true)]);
    }
}
