//! Where each field of a YAML document stands, so that an error can name its line and its field.

use serde_saphyr::Location;
use serde_saphyr::granit_parser::{Event, Parser};

/// The fields of a document in its order, each by its path: `spec.snapshot.agent.image`.
#[derive(Debug, Default)]
pub(crate) struct Places {
    fields: Vec<Field>,
    /// Whether all of the text could be read.
    whole: bool,
}

#[derive(Debug)]
struct Field {
    path: String,
    line: usize,
    column: usize,
}

/// A map or a list that is being read.
enum Open {
    /// Its path, and that of the key whose value comes next.
    Map(String, Option<String>),
    List(String),
}

impl Places {
    /// Looks at the first document of the text, as far as it can be read.
    pub(crate) fn of(text: &str) -> Self {
        let (mut places, mut open) = (Self::default(), Vec::new());
        for event in Parser::new_from_str(text) {
            let Ok((event, span)) = event else { return places };
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::DocumentEnd | Event::StreamEnd => break,
                Event::MappingEnd | Event::SequenceEnd => drop(open.pop()),
                Event::Scalar(key, ..) if matches!(open.last(), Some(Open::Map(_, None))) => {
                    if let Some(Open::Map(path, next)) = open.last_mut() {
                        let path = if path.is_empty() { key.into_owned() } else { format!("{path}.{key}") };
                        *next = Some(path.clone());
                        places.fields.push(Field { path, line: span.start.line(), column: span.start.col() + 1 });
                    }
                }
                event => {
                    let path = match open.last_mut() {
                        Some(Open::Map(_, next)) => next.take(),
                        Some(Open::List(path)) => Some(path.clone()),
                        None => Some(String::new()),
                    };
                    // A key that is no word: what follows has no name.
                    let Some(path) = path else { return places };
                    match event {
                        Event::MappingStart(..) => open.push(Open::Map(path, None)),
                        Event::SequenceStart(..) => open.push(Open::List(path)),
                        _ => {}
                    }
                }
            }
        }
        places.whole = true;
        places
    }

    /// The line of a field.
    pub(crate) fn line(&self, path: &str) -> Option<usize> {
        self.fields.iter().find(|field| field.path == path).map(|field| field.line)
    }

    /// The field that has its name or value at a place. None where the text could not be read: the last field before
    /// what is wrong with it need not be the one that is meant.
    pub(crate) fn field_at(&self, place: Location) -> Option<&str> {
        let before = |field: &&Field| (field.line as u64, field.column as u64) <= (place.line(), place.column());
        self.fields.iter().filter(|_| self.whole).take_while(before).last().map(|field| field.path.as_str())
    }

    /// The names of the fields right below one.
    pub(crate) fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields
            .iter()
            .filter_map(move |field| field.path.strip_prefix(path)?.strip_prefix('.'))
            .filter(|name| !name.contains('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_path_in_block_flow_and_lists() {
        let places = Places::of(
            "kind: X\nspec:\n  a: { b: 1, c: [x, { d: 2 }] }\n  e:\n  - f\n  g: &here h\n  i: *here\n  j: k\n---\nl: m\n",
        );
        for (path, line) in [("kind", 1), ("spec", 2), ("spec.a.b", 3), ("spec.a.c.d", 3), ("spec.e", 4), ("spec.j", 8)]
        {
            assert_eq!(places.line(path), Some(line), "{path}");
        }
        assert_eq!((places.line("f"), places.line("l")), (None, None), "neither a field nor the first document's");
        assert_eq!(places.below("spec").collect::<Vec<_>>(), ["a", "e", "g", "i", "j"]);
        assert_eq!(places.below("kind").count(), 0);
    }

    #[test]
    fn what_cannot_be_read_gives_no_field() {
        let located = |text: &str| serde_saphyr::from_str::<u32>(text).unwrap_err().location().unwrap();
        let place = located("a:\n  b: c\n");
        assert_eq!(Places::of("a:\n  b: c\n").field_at(place), Some("a"));
        assert_eq!(Places::of("a:\n  b: [\n").field_at(place), None);
        assert_eq!(Places::of("[a]: b\nc: d\n").field_at(place), None);
    }
}
