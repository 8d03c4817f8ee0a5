//! How far a log was read, so that a stream that is taken up again repeats and loses nothing.

use jiff::Timestamp;

use super::lines::Piece;

/// The time of the last line, and how many pieces of lines in a row bore it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    at: Option<Timestamp>,
    pieces: usize,
}

/// What a stream repeats before it comes to the place: `sinceTime` has whole seconds, and lines may share a time.
#[derive(Debug)]
pub(super) struct Repetition {
    /// The place's time, until the stream has come there.
    from: Option<Timestamp>,
    left: usize,
    /// The time of the line that the stream is in.
    line: Option<Timestamp>,
    was_whole: bool,
}

impl Place {
    /// What to ask for as `sinceTime`: rounded down, or the lines until the next whole second would be lost.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.at.and_then(|at| Timestamp::from_second(at.as_second()).ok())
    }

    pub(super) fn repetition(&self) -> Repetition {
        Repetition { from: self.at, left: self.pieces, line: None, was_whole: false }
    }

    /// The text of a piece that has not been seen yet.
    pub(super) fn take(&mut self, piece: &Piece<'_>, repetition: &mut Repetition) -> Option<String> {
        let mut text = piece.bytes;
        if piece.begins {
            let stamped = stamp(piece.bytes);
            repetition.line = stamped.map(|(at, _)| at);
            text = stamped.map_or(piece.bytes, |(_, text)| text);
        }
        // A server that sends no times leaves nothing to compare.
        if let Some(at) = repetition.line {
            if repetition.has(at) {
                return None;
            }
            if self.at != Some(at) {
                *self = Self { at: Some(at), pieces: 0 };
            }
            self.pieces += 1;
        }
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl Repetition {
    /// Whether the stream has repeated all that it should: then it was not cut before the place.
    pub(super) fn is_whole(&self) -> bool {
        self.was_whole
    }

    /// Whether the next piece of this time is a repetition.
    fn has(&mut self, at: Timestamp) -> bool {
        let Some(from) = self.from else { return false };
        if at < from {
            return true;
        }
        if at == from {
            self.left -= 1;
        }
        if at > from || self.left == 0 {
            // A clock that is set back later repeats nothing.
            self.from = None;
            self.was_whole = true;
        }
        at == from
    }
}

/// The time of a line, and the rest.
fn stamp(line: &[u8]) -> Option<(Timestamp, &[u8])> {
    let space = line.iter().position(|&byte| byte == b' ')?;
    let at = std::str::from_utf8(&line[..space]).ok()?.parse().ok()?;
    Some((at, &line[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> Piece<'_> {
        Piece { bytes, begins: true }
    }

    fn stamped(second: u32, nanos: u32, text: &str) -> Vec<u8> {
        format!("2026-08-21T14:22:{second:02}.{nanos:09}Z {text}").into_bytes()
    }

    /// What one stream brings that is new.
    fn read(place: &mut Place, lines: &[Vec<u8>]) -> (Vec<String>, bool) {
        let mut repetition = place.repetition();
        let new = lines.iter().filter_map(|line| place.take(&piece(line), &mut repetition)).collect();
        (new, repetition.is_whole())
    }

    #[test]
    fn r23_a_resumed_log_repeats_and_loses_no_line_wherever_it_was_cut_even_where_lines_share_a_time() {
        let all: Vec<_> = [(1, 0, "a"), (1, 5, "b"), (1, 5, "c"), (1, 5, "d"), (1, 900_000_000, "e"), (2, 0, "f")]
            .map(|(second, nanos, text)| stamped(second, nanos, text))
            .into();
        for cut in 0..=all.len() {
            for cut_again in 0..=all.len() {
                let mut place = Place::default();
                let mut seen = read(&mut place, &all[..cut]).0;
                seen.extend(read(&mut place, &all[..cut_again]).0);
                seen.extend(read(&mut place, &all).0);
                assert_eq!(seen, ["a", "b", "c", "d", "e", "f"], "cut after {cut} and {cut_again} lines");
                let (new, is_whole) = read(&mut place, &all);
                assert_eq!((new.len(), is_whole), (0, true));
                assert!(!read(&mut place, &all[..5]).1, "cut before the place");
            }
        }
    }

    #[test]
    fn r23_a_log_is_taken_up_from_the_second_in_which_it_was_cut() {
        let mut place = Place::default();
        assert_eq!(place.since(), None);
        read(&mut place, &[stamped(1, 999_999_999, "a")]);
        assert_eq!(place.since().map(|since| since.to_string()).as_deref(), Some("2026-08-21T14:22:01Z"));
    }

    #[test]
    fn r23_the_parts_of_a_long_line_are_repeated_no_more_than_its_beginning() {
        let begin = stamped(1, 0, "begin");
        let long = [piece(&begin), Piece { bytes: b"middle", begins: false }, Piece { bytes: b"end", begins: false }];
        for cut in 0..=long.len() {
            let mut place = Place::default();
            let mut seen = Vec::new();
            for stream in [&long[..cut], &long[..]] {
                let mut repetition = place.repetition();
                seen.extend(stream.iter().filter_map(|piece| place.take(piece, &mut repetition)));
            }
            assert_eq!(seen, ["begin", "middle", "end"], "cut after {cut} parts");
        }
    }

    #[test]
    fn lines_after_a_clock_was_set_back_are_not_taken_for_repetitions() {
        let mut place = Place::default();
        read(&mut place, &[stamped(5, 0, "a")]);
        let (new, _) = read(&mut place, &[stamped(5, 0, "a"), stamped(3, 0, "b"), stamped(4, 0, "c")]);
        assert_eq!(new, ["b", "c"]);
    }

    #[test]
    fn a_log_without_times_is_shown_as_it_comes_and_invalid_utf8_stays_readable() {
        let mut place = Place::default();
        let mut repetition = place.repetition();
        assert_eq!(place.take(&piece(b"plain text"), &mut repetition).as_deref(), Some("plain text"));
        assert_eq!(place.take(&piece(b"\xff\xfe x"), &mut repetition).as_deref(), Some("\u{fffd}\u{fffd} x"));
    }
}
