//! A list read object by object while its bytes come, so that none of its pages has to be held.

/// What has come of a list's JSON, and is not taken yet.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The list without its items, and the item that has begun.
    bytes: Vec<u8>,
    /// Where that item begins.
    item: Option<usize>,
    depth: usize,
    /// Whether the value that stands directly in the list's object is an array: only `items` is one.
    in_array: bool,
    in_text: bool,
    escaped: bool,
}

impl Items {
    /// Takes the next bytes, and gives each item that they complete to `take`.
    pub(super) fn feed<E>(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut kept = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if self.in_text {
                let escaped = std::mem::replace(&mut self.escaped, false);
                match byte {
                    _ if escaped => {}
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 2 {
                        self.in_array = byte == b'[';
                    } else if self.depth == 3 && self.in_array {
                        self.bytes.extend_from_slice(&bytes[kept..at]);
                        kept = at;
                        self.item = Some(self.bytes.len());
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 2
                        && let Some(item) = self.item.take()
                    {
                        self.bytes.extend_from_slice(&bytes[kept..=at]);
                        kept = at + 1;
                        take(&self.bytes[item..])?;
                        self.bytes.truncate(item);
                    }
                }
                // What stands between the items goes with them.
                b',' if self.depth == 2 && self.in_array => {
                    self.bytes.extend_from_slice(&bytes[kept..at]);
                    kept = at + 1;
                }
                _ => {}
            }
        }
        self.bytes.extend_from_slice(&bytes[kept..]);
        Ok(())
    }

    /// The list without its items, once everything has come.
    pub(super) fn into_rest(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Items, and what is left, of a list that comes in pieces of this length.
    fn split(list: &Value, piece: usize) -> (Vec<Value>, Value) {
        let (mut items, mut taken) = (Items::default(), Vec::new());
        for piece in list.to_string().as_bytes().chunks(piece) {
            let take = |item: &[u8]| serde_json::from_slice(item).map(|item| taken.push(item));
            items.feed(piece, take).unwrap();
        }
        (taken, serde_json::from_slice(&items.into_rest()).unwrap())
    }

    proptest! {
        #[test]
        fn every_item_comes_once_however_the_bytes_are_cut(
            texts in prop::collection::vec(any::<String>(), 0..5),
            piece in 1_usize..40,
        ) {
            let items: Vec<Value> =
                texts.iter().map(|text| json!({ "metadata": { "name": text, text: [[], {}, [text, "}],\\\""]] } })).collect();
            let around = |items: &[Value]| json!({
                "metadata": { "continue": "]},{\"", "a": { "b": [{}, {}] } }, "items": items, "kind": "RoleList",
            });
            let (taken, rest) = split(&around(&items), piece);
            prop_assert_eq!(&taken, &items);
            prop_assert_eq!(rest, around(&[]));
        }
    }

    #[test]
    fn an_item_that_cannot_be_taken_ends_it() {
        let mut items = Items::default();
        assert_eq!(items.feed(br#"{"items":[{},{}]}"#, |_| Err("no")), Err("no"));
    }

    #[test]
    fn what_is_no_list_is_left_as_it_came() {
        for other in [json!({ "kind": "Status", "details": { "causes": [{}] } }), json!("text"), json!([[1], 2])] {
            let (taken, rest) = split(&other, 3);
            assert!(taken.is_empty() && rest == other, "{other}: {taken:?} {rest}");
        }
    }
}
