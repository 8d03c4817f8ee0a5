//! The document flattened for people to read. Knows the usual shape and shows any other one as well.

use crate::snapshot::node::{Node, Unreadable};

/// Lines of a value that are shown.
const MAX_LINES: usize = 5;

/// Characters of a line that are shown.
const MAX_WIDTH: usize = 120;

/// Nodes of a topology entry that are named.
const MAX_NODES: usize = 4;

/// What stands in the document, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Path and value of everything outside the measurements.
    pub(crate) head: Vec<[String; 2]>,
    /// Type, subtype, key and value of each reading.
    pub(crate) readings: Vec<[String; 4]>,
}

impl Listing {
    pub(crate) fn of(document: &[u8]) -> Result<Self, Unreadable> {
        let root = Node::parse(document)?;
        let mut listing = Self { head: Vec::new(), readings: Vec::new() };
        if root.entries().is_empty() {
            listing.outside("", &root);
        }
        for (key, node) in root.entries() {
            match node {
                Node::List(measurements) if key == "measurements" && !measurements.is_empty() => {
                    for (at, measurement) in measurements.iter().enumerate() {
                        listing.measurement(at, measurement);
                    }
                }
                _ => listing.outside(key, node),
            }
        }
        Ok(listing)
    }

    fn outside(&mut self, path: &str, node: &Node) {
        flatten(path.to_owned(), node, &mut |path, value| self.head.push([path, shown(&value)]));
    }

    fn measurement(&mut self, at: usize, measurement: &Node) {
        let name = name_of(measurement, "type").map_or_else(|| format!("measurements[{at}]"), str::to_owned);
        if measurement.entries().is_empty() {
            self.readings(&name, "", "", measurement);
        }
        for (key, node) in measurement.entries() {
            match node {
                Node::List(subtypes) if key == "subtypes" && !subtypes.is_empty() => {
                    for (at, subtype) in subtypes.iter().enumerate() {
                        self.subtype(&name, at, subtype);
                    }
                }
                Node::Text(_) if key == "type" && measurement.entries().len() > 1 => {}
                _ => self.readings(&name, "", key, node),
            }
        }
    }

    fn subtype(&mut self, measurement: &str, at: usize, subtype: &Node) {
        let name = name_of(subtype, "subtype").map_or_else(|| format!("subtypes[{at}]"), str::to_owned);
        if subtype.entries().is_empty() {
            self.readings(measurement, &name, "", subtype);
        }
        for (key, node) in subtype.entries() {
            match node {
                Node::Map(data) if key == "data" && !data.is_empty() => {
                    for (key, node) in data {
                        self.readings(measurement, &name, &quoted_if_empty(key), node);
                    }
                }
                Node::Text(_) if key == "subtype" && subtype.entries().len() > 1 => {}
                _ => self.readings(measurement, &name, key, node),
            }
        }
    }

    fn readings(&mut self, measurement: &str, subtype: &str, key: &str, node: &Node) {
        let is_label = measurement == "NodeTopology" && subtype == "label";
        flatten(key.to_owned(), node, &mut |key, value| {
            let value = if is_label { label(&value) } else { shown(&value) };
            self.readings.push([measurement.to_owned(), subtype.to_owned(), key, value]);
        });
    }
}

fn name_of<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.get(key).and_then(Node::text)
}

/// Calls `each` with the path and text of every scalar and every empty collection.
fn flatten(path: String, node: &Node, each: &mut impl FnMut(String, String)) {
    match node {
        Node::Null => each(path, "null".to_owned()),
        Node::Bool(value) => each(path, value.to_string()),
        Node::Number(text) => each(path, text.clone()),
        Node::Text(text) => each(path, quoted_if_empty(text)),
        Node::List(items) if items.is_empty() => each(path, "[]".to_owned()),
        Node::Map(entries) if entries.is_empty() => each(path, "{}".to_owned()),
        Node::List(items) => {
            for (at, item) in items.iter().enumerate() {
                flatten(format!("{path}[{at}]"), item, each);
            }
        }
        Node::Map(entries) => {
            for (key, value) in entries {
                let key = quoted_if_empty(key);
                flatten(if path.is_empty() { key } else { format!("{path}.{key}") }, value, each);
            }
        }
    }
}

fn quoted_if_empty(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { text.to_owned() }
}

/// A value as far as a reader takes it in at a glance: some lines, some characters of each.
fn shown(value: &str) -> String {
    let value = value.trim_end_matches('\n');
    let lines = value.lines().count();
    let visible = if lines > MAX_LINES { MAX_LINES - 1 } else { MAX_LINES };
    let more = (lines > visible).then(|| format!("… {} more lines", lines - visible));
    value.lines().take(visible).map(shortened).chain(more).collect::<Vec<_>>().join("\n")
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// `value|node,node` as a label's value and where it stands.
fn label(value: &str) -> String {
    let Some((value, nodes)) = value.rsplit_once('|') else { return shown(value) };
    let nodes: Vec<_> = nodes.split(',').collect();
    let named = nodes[..nodes.len().min(MAX_NODES)].join(", ");
    let rest = match nodes.len().saturating_sub(MAX_NODES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} on {named}{rest}", shown(&quoted_if_empty(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(yaml: &str) -> Listing {
        Listing::of(yaml.as_bytes()).unwrap()
    }

    fn head(yaml: &str) -> Vec<String> {
        let listing = listing(yaml);
        assert_eq!(listing.readings, Vec::<[String; 4]>::new());
        listing.head.iter().map(|pair| pair.join("=")).collect()
    }

    fn readings(yaml: &str) -> Vec<String> {
        let listing = listing(yaml);
        assert_eq!(listing.head, Vec::<[String; 2]>::new());
        listing.readings.iter().map(|row| row.join("|")).collect()
    }

    #[test]
    fn any_shape_is_shown() {
        assert_eq!(head("- a: 1\n  \"\": x\n- [2, {}]\n"), ["[0].a=1", "[0].\"\"=x", "[1][0]=2", "[1][1]={}"]);
        assert_eq!(head("just text\n"), ["=just text"]);
        assert_eq!(head("{}"), ["={}"]);
        assert_eq!(head("measurements: []\n"), ["measurements=[]"]);
        assert_eq!(head("measurements: {a: null}\n"), ["measurements.a=null"]);
    }

    #[test]
    fn parts_of_a_measurement_that_are_not_readings_are_shown_too() {
        let yaml = "measurements:\n- type: OS\n  note: x\n  subtypes:\n  - subtype: release\n    context: {node: n1}\n    \
                    data: {ID: ubuntu, '': y}\n  - subtype: bare\n  - 7\n- subtypes: []\n- text\n- type: GPU\n";
        assert_eq!(
            readings(yaml),
            [
                "OS||note|x",
                "OS|release|context.node|n1",
                "OS|release|ID|ubuntu",
                "OS|release|\"\"|y",
                "OS|bare|subtype|bare",
                "OS|subtypes[2]||7",
                "measurements[1]||subtypes|[]",
                "measurements[2]|||text",
                "GPU||type|GPU",
            ]
        );
    }

    #[test]
    fn labels_say_where_they_stand() {
        assert_eq!(label("true|n1"), "true on n1");
        assert_eq!(label("|n1,n2"), "\"\" on n1, n2");
        assert_eq!(label("a|b|n1"), "a|b on n1");
        assert_eq!(label("v|n1,n2,n3,n4,n5,n6"), "v on n1, n2, n3, n4 and 2 more");
        assert_eq!(label("plain"), "plain");
    }

    #[test]
    fn long_values_are_shortened_and_say_so() {
        assert_eq!(shown("1\n2\n3\n4\n5\n"), "1\n2\n3\n4\n5");
        assert_eq!(shown("1\n2\n3\n4\n5\n6\n"), "1\n2\n3\n4\n… 2 more lines");
        assert_eq!(shown(&"ä".repeat(MAX_WIDTH)), "ä".repeat(MAX_WIDTH));
        assert_eq!(shown(&"ä".repeat(MAX_WIDTH + 1)), format!("{}…", "ä".repeat(MAX_WIDTH)));
    }
}
