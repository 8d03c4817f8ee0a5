//! The document in the format that the user asked for (R26).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::report::table;
use crate::snapshot::json;
use crate::snapshot::listing::Listing;

/// How the document is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// The agent's bytes, unchanged.
    #[default]
    Yaml,
    /// The same values as JSON.
    Json,
    /// A flattened list to read.
    Table,
}

impl Format {
    /// Every format.
    pub(crate) const ALL: [Self; 3] = [Self::Yaml, Self::Json, Self::Table];

    /// The name that `--format` takes.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
            Self::Table => "table",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or("must be yaml, json or table")
    }
}

/// The document's bytes in a format.
///
/// # Errors
/// [`Error::Document`] if the format needs the document to be read and it cannot be.
pub(crate) fn render(document: &[u8], format: Format) -> Result<Cow<'_, [u8]>, Error> {
    match format {
        Format::Yaml => Ok(Cow::Borrowed(document)),
        Format::Json => json::encode(document).map(Cow::Owned),
        Format::Table => {
            let listing = Listing::of(document)
                .map_err(|error| Error::Document { format: "table", reason: error.to_string() })?;
            Ok(Cow::Owned(reading_list(listing).into_bytes()))
        }
    }
}

fn reading_list(listing: Listing) -> String {
    let mut text = table::columns(listing.head);
    if !listing.readings.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        let header = ["TYPE", "SUBTYPE", "KEY", "VALUE"].map(str::to_owned);
        text.push_str(&table::columns(std::iter::once(header).chain(listing.readings)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
kind: Snapshot
apiVersion: aicr.run/v1alpha2
metadata:
  source-node: gpu-1
  timestamp: \"2026-08-21T14:22:33Z\"
  version: v1.1.2
measurements:
- type: SystemD
  subtypes:
  - subtype: containerd.service
    data:
      ActiveState: active
      CPUAccounting: true
      ExecStart: |
        /usr/bin/containerd
        --log-level=info
- type: GPU
  subtypes:
  - subtype: smi
    data:
      gpu-count: 8
      driver: \"580.82.07\"
      banner: \"\\e[31mred\\e[0m\\r\"
- type: OS
  subtypes:
  - subtype: grub
    data:
      \"\": \"\"
      \"0\": BOOT_IMAGE=/vmlinuz
      /net/ipv4:tcp.rmem: \"1 2 3\"
- type: NodeTopology
  subtypes:
  - subtype: label
    data:
      nvidia.com/gpu.present: true|gpu-1,gpu-2
      node-role.kubernetes.io/control-plane: \"|cp-1\"
";

    #[test]
    fn r26_yaml_is_the_agents_bytes_even_when_they_are_not_yaml() {
        let bytes = b"\xff\x00: [\r\n";
        assert!(matches!(render(bytes, Format::Yaml), Ok(Cow::Borrowed(same)) if same == bytes));
    }

    #[test]
    fn r26_table_is_a_flat_reading_list_without_control_characters() {
        let table = render(DOCUMENT.as_bytes(), Format::Table).unwrap().into_owned();
        insta::assert_snapshot!(String::from_utf8(table).unwrap(), @r#"
        kind                   Snapshot
        apiVersion             aicr.run/v1alpha2
        metadata.source-node   gpu-1
        metadata.timestamp     2026-08-21T14:22:33Z
        metadata.version       v1.1.2

        TYPE           SUBTYPE              KEY                                     VALUE
        SystemD        containerd.service   ActiveState                             active
        SystemD        containerd.service   CPUAccounting                           true
        SystemD        containerd.service   ExecStart                               /usr/bin/containerd
                                                                                    --log-level=info
        GPU            smi                  gpu-count                               8
        GPU            smi                  driver                                  580.82.07
        GPU            smi                  banner                                  red
        OS             grub                 ""                                      ""
        OS             grub                 0                                       BOOT_IMAGE=/vmlinuz
        OS             grub                 /net/ipv4:tcp.rmem                      1 2 3
        NodeTopology   label                nvidia.com/gpu.present                  true on gpu-1, gpu-2
        NodeTopology   label                node-role.kubernetes.io/control-plane   "" on cp-1
        "#);
    }

    #[test]
    fn r26_an_unreadable_document_says_why() {
        for format in [Format::Json, Format::Table] {
            let error = render(b"a: 1\n---\nb: 2\n", format).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("cannot show the snapshot as {format}: line 2: a second document begins")
            );
        }
    }

    #[test]
    fn r26_a_document_of_the_largest_size_is_shown_in_a_moment() {
        let rows = 25_000;
        let entries: Vec<_> =
            (0..rows).map(|n| format!("      key-{n}.example.com/with:colon: \"value {n}\"")).collect();
        let document =
            format!("measurements:\n- type: K8s\n  subtypes:\n  - subtype: image\n    data:\n{}\n", entries.join("\n"));
        assert!(document.len() > 1 << 20);
        let start = std::time::Instant::now();
        let table = String::from_utf8(render(document.as_bytes(), Format::Table).unwrap().into_owned()).unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&render(document.as_bytes(), Format::Json).unwrap()).unwrap();
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(table.lines().count(), rows + 1);
        assert_eq!(json["measurements"][0]["subtypes"][0]["data"].as_object().map(serde_json::Map::len), Some(rows));
    }
}
