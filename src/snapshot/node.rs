//! A YAML document as a tree that keeps everything: order, every key, each scalar's type and digits.

use std::collections::{HashMap, HashSet};

use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, StrInput, Tag};

use crate::snapshot::scalar;

/// Deepest nesting that is read. The agent's documents have about eight levels.
const MAX_DEPTH: usize = 128;

/// What aliases may add to the tree, in bytes: a small document must not grow without bound.
const ALIAS_ROOM: usize = 16 << 20;

/// One value of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// As JSON spells it.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// In the document's order; no key stands twice.
    Map(Vec<(String, Node)>),
}

/// Why a document cannot be read: a sentence for people, with the line where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(String);

impl Unreadable {
    fn at(line: usize, problem: impl std::fmt::Display) -> Self {
        Self(format!("line {line}: {problem}"))
    }
}

impl Node {
    /// Reads the one document that `bytes` holds.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        Self::parse_keeping(bytes, |_| true)
    }

    /// As [`Node::parse`], without the entries of maps whose key is not wanted: the tree of a document is several times
    /// as large as the document. A map that has any entry keeps one.
    pub(crate) fn parse_keeping(bytes: &[u8], wanted: fn(&str) -> bool) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(bytes).map_err(|error| Unreadable(format!("it is not UTF-8: {error}")))?;
        let mut options = Options::default();
        options.set_emit_comments(false);
        Reader {
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            alias_room: ALIAS_ROOM,
            wanted,
        }
        .document()
    }

    /// The value of a key, if this is a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The entries of a map; none for anything else.
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if this is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes in memory, and levels.
    fn size(&self) -> (usize, usize) {
        let own = size_of::<Self>();
        let within = |(bytes, levels): (usize, usize), (text, node): (usize, &Self)| {
            let (more, deeper) = node.size();
            (bytes + text + more, levels.max(deeper + 1))
        };
        match self {
            Self::Null | Self::Bool(_) => (own, 0),
            Self::Number(text) | Self::Text(text) => (own + text.len(), 0),
            Self::List(items) => items.iter().map(|item| (0, item)).fold((own, 0), within),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| (size_of::<String>() + key.len(), value)).fold((own, 0), within)
            }
        }
    }
}

/// Builds the tree from the parser's events.
struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    alias_room: usize,
    wanted: fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), Unreadable> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(Unreadable::at(error.marker().line(), error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn document(mut self) -> Result<Node, Unreadable> {
        let root = loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (Event::StreamEnd, _) => return Err(Unreadable("it holds no document".to_owned())),
                (event, line) => break self.node(event, line, 0)?,
            }
        };
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root),
                (Event::DocumentStart(..), line) => {
                    return Err(Unreadable::at(line, "a second document begins"));
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'a>, line: usize, depth: usize) -> Result<Node, Unreadable> {
        if depth > MAX_DEPTH {
            return Err(Unreadable::at(line, format!("more than {MAX_DEPTH} levels")));
        }
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => (anchor, scalar_node(&text, style, tag.as_deref(), line)?),
            Event::SequenceStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "seq", line)?;
                (anchor, self.list(depth)?)
            }
            Event::MappingStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "map", line)?;
                (anchor, self.map(depth)?)
            }
            Event::Alias(anchor) => return self.alias(anchor, line, depth),
            other => return Err(Unreadable::at(line, format!("unexpected {other:?}"))),
        };
        if anchor != 0 {
            self.charge(&node, line)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Node, Unreadable> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::List(items)),
                (event, line) => items.push(self.node(event, line, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Node, Unreadable> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (key, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Node::Map(entries)),
                // A key without text and `~` are YAML's null; the parser does not tell one from the other.
                (Event::Scalar(text, ScalarStyle::Plain, ..), line) if scalar::plain(&text) == Node::Null => {
                    ("null".to_owned(), line)
                }
                (Event::Scalar(text, ..), line) => (text.into_owned(), line),
                (_, line) => return Err(Unreadable::at(line, "a key that is not a plain text")),
            };
            let is_wanted = (self.wanted)(&key);
            if is_wanted && !seen.insert(key.clone()) {
                return Err(Unreadable::at(line, format!("the key {key:?} stands there twice")));
            }
            let (event, line) = self.next()?;
            let value = self.node(event, line, depth + 1)?;
            if is_wanted || entries.is_empty() {
                entries.push((key, value));
            }
        }
    }

    fn alias(&mut self, anchor: usize, line: usize, depth: usize) -> Result<Node, Unreadable> {
        // An anchor that is still open is not known yet, so no node can hold itself.
        let node = self
            .anchors
            .get(&anchor)
            .cloned()
            .ok_or_else(|| Unreadable::at(line, "an alias of something that is not a complete value"))?;
        if depth + self.charge(&node, line)? > MAX_DEPTH {
            return Err(Unreadable::at(line, format!("more than {MAX_DEPTH} levels")));
        }
        Ok(node)
    }

    /// Counts a copy of `node` and gives its levels.
    fn charge(&mut self, node: &Node, line: usize) -> Result<usize, Unreadable> {
        let (bytes, levels) = node.size();
        match self.alias_room.checked_sub(bytes) {
            Some(left) => self.alias_room = left,
            None => return Err(Unreadable::at(line, "aliases make the document too big")),
        }
        Ok(levels)
    }
}

fn scalar_node(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Node, Unreadable> {
    let Some(tag) = tag else {
        return Ok(match style {
            ScalarStyle::Plain => scalar::plain(text),
            _ => Node::Text(text.to_owned()),
        });
    };
    let plain = || scalar::plain(text);
    let node = match name(tag).as_deref() {
        Some("str" | "binary" | "timestamp") => Some(Node::Text(text.to_owned())),
        Some("null") => Some(plain()).filter(|node| *node == Node::Null),
        Some("bool") => Some(plain()).filter(|node| matches!(node, Node::Bool(_))),
        Some("int" | "float") => Some(plain()).filter(|node| matches!(node, Node::Number(_))),
        _ => None,
    };
    node.ok_or_else(|| Unreadable::at(line, format!("{text:?} is no value for the tag {}", tag.original())))
}

fn expect_tag(tag: Option<&Tag>, expected: &str, line: usize) -> Result<(), Unreadable> {
    match tag {
        Some(tag) if name(tag).as_deref() != Some(expected) => {
            Err(Unreadable::at(line, format!("the tag {} has no meaning here", tag.original())))
        }
        _ => Ok(()),
    }
}

/// The tag's name among YAML's own. The non-specific tag `!` says "not resolved": a text.
fn name(tag: &Tag) -> Option<std::borrow::Cow<'_, str>> {
    match tag.original().as_str() {
        "!" => Some("str".into()),
        _ => tag.suffix_in_namespace("tag:yaml.org,2002:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Node {
        Node::Text(text.to_owned())
    }

    fn problem(yaml: &str) -> String {
        Node::parse(yaml.as_bytes()).map_err(|error| error.to_string()).expect_err(yaml)
    }

    #[test]
    fn keys_of_every_kind_are_kept_in_order() {
        let yaml = "b: 1\n\"\": empty\n0: zero\na.b/c:d: path\n\"0x1\": hex\n? long\n: v\ntrue: t\n: none\n";
        let node = Node::parse(yaml.as_bytes()).unwrap();
        let keys: Vec<_> = node.entries().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "", "0", "a.b/c:d", "0x1", "long", "true", "null"]);
    }

    #[test]
    fn quoted_and_block_scalars_are_texts_whatever_they_look_like() {
        let yaml = "a: '1'\nb: \"true\"\nc: |\n  one\n  two\nd: >-\n  12\ne: !!str 3\nf: ! 4\ng: ''\n";
        let node = Node::parse(yaml.as_bytes()).unwrap();
        let values: Vec<_> = node.entries().iter().map(|(_, value)| value.clone()).collect();
        assert_eq!(values, [text("1"), text("true"), text("one\ntwo\n"), text("12"), text("3"), text("4"), text("")]);
    }

    #[test]
    fn what_would_be_lost_is_an_error_that_names_the_line() {
        assert_eq!(problem("a: 1\nb: 2\na: 3\n"), "line 3: the key \"a\" stands there twice");
        assert_eq!(problem("1: a\n'1': b\n"), "line 2: the key \"1\" stands there twice");
        assert_eq!(problem("a: 1\n---\nb: 2\n"), "line 2: a second document begins");
        assert_eq!(problem("~: a\n: b\n"), "line 2: the key \"null\" stands there twice");
        assert_eq!(problem("? [a, b]\n: c\n"), "line 1: a key that is not a plain text");
        assert_eq!(problem("a: !secret x\n"), "line 1: \"x\" is no value for the tag !secret");
        assert_eq!(problem("a: !!int x\n"), "line 1: \"x\" is no value for the tag !!int");
        assert_eq!(problem("a: !set {b}\n"), "line 1: the tag !set has no meaning here");
        for empty in ["", "\n", "# only a comment\n"] {
            assert_eq!(problem(empty), "it holds no document");
        }
        assert!(problem("a: [1, 2\n").starts_with("line "), "{}", problem("a: [1, 2\n"));
        assert!(Node::parse(b"a: \xff").is_err());
    }

    #[test]
    fn aliases_are_resolved_and_merge_keys_stay_keys() {
        let node = Node::parse(b"a: &x {k: 1}\nb: *x\n<<: *x\n").unwrap();
        let one = Node::Map(vec![("k".to_owned(), Node::Number("1".to_owned()))]);
        assert_eq!(node.get("b"), Some(&one));
        assert_eq!(node.get("<<"), Some(&one));
        assert!(node.get("k").is_none());
    }

    #[test]
    fn alias_bombs_fail_cleanly() {
        let bomb = |levels: usize, width: usize| {
            let level = |n: usize| format!("a{}: &a{} [{}]", n + 1, n + 1, vec![format!("*a{n}"); width].join(", "));
            let lines: Vec<_> = (0..levels).map(level).collect();
            format!("a0: &a0 [x]\n{}\n", lines.join("\n"))
        };
        let wide = bomb(20, 10);
        assert!(problem(&wide).ends_with("aliases make the document too big"), "{}", problem(&wide));
        let deep = bomb(200, 1);
        assert!(problem(&deep).ends_with("more than 128 levels"), "{}", problem(&deep));
        assert_eq!(problem("a: &a [*a]\n"), "line 1: an alias of something that is not a complete value");
        assert!(problem(&"[".repeat(100_000)).starts_with("line 1: "));
    }
}
