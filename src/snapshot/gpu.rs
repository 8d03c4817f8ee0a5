//! R25's second look: a document without GPU data from a cluster that has GPU nodes.

use crate::snapshot::node::Node;

/// Prefix of the labels that GPU feature discovery puts on nodes.
const GPU_LABELS: &str = "nvidia.com/gpu.";

/// Key of the number of GPUs that the agent saw.
const COUNT: &str = "gpu-count";

/// Whether the topology shows GPU labels while the agent saw no GPU: it probably ran on a node without one.
/// A document that cannot be read gives no finding.
pub(crate) fn is_missing(document: &[u8]) -> bool {
    // Most documents of a cluster without GPUs are not worth parsing.
    let mentioned = document.windows(GPU_LABELS.len()).any(|window| window == GPU_LABELS.as_bytes());
    mentioned
        && Node::parse_keeping(document, decides).is_ok_and(|node| labels_show_gpus(&node) && !has_gpu_data(&node))
}

/// Keys without which nothing can be said.
fn decides(key: &str) -> bool {
    matches!(key, "measurements" | "type" | "subtypes" | "subtype" | "data" | COUNT) || key.starts_with(GPU_LABELS)
}

/// The `data` of every subtype of a measurement, with the subtype's name.
fn data<'a>(document: &'a Node, measurement: &'a str) -> impl Iterator<Item = (&'a str, &'a [(String, Node)])> {
    document
        .get("measurements")
        .into_iter()
        .flat_map(Node::items)
        .filter(move |node| node.get("type").and_then(Node::text) == Some(measurement))
        .filter_map(|node| node.get("subtypes"))
        .flat_map(Node::items)
        .map(|node| {
            let name = node.get("subtype").and_then(Node::text).unwrap_or_default();
            (name, node.get("data").map(Node::entries).unwrap_or_default())
        })
}

fn labels_show_gpus(document: &Node) -> bool {
    data(document, "NodeTopology")
        .any(|(subtype, data)| subtype == "label" && data.iter().any(|(key, _)| key.starts_with(GPU_LABELS)))
}

/// An agent that finds no GPU still writes its GPU measurement, with a count of zero.
fn has_gpu_data(document: &Node) -> bool {
    let mut counts = data(document, "GPU").flat_map(|(_, data)| data).filter(|(key, _)| key == COUNT).peekable();
    if counts.peek().is_some() {
        return counts.any(|(_, count)| !matches!(count, Node::Number(n) if n == "0"));
    }
    data(document, "GPU").any(|(_, data)| !data.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(gpu: &str, label: &str) -> String {
        format!(
            "kind: Snapshot\nmeasurements:\n- type: GPU\n  subtypes: {gpu}\n- type: NodeTopology\n  subtypes:\n  \
             - subtype: label\n    data:\n      {label}: true|node-1\n"
        )
    }

    #[test]
    fn r25_gpu_labels_without_gpu_data_are_noticed() {
        for gpu in [
            "[]",
            "[{subtype: smi, data: {}}]",
            "[{subtype: smi, data: {gpu-count: 0}}]",
            "[{subtype: hardware, data: {gpu-count: 0, gpu-present: false}}, {subtype: smi, data: {gpu-count: 0}}]",
        ] {
            assert!(is_missing(document(gpu, "nvidia.com/gpu.present").as_bytes()), "{gpu}");
            assert!(!is_missing(document(gpu, "kubernetes.io/os").as_bytes()), "{gpu}");
        }
        let no_measurement = document("[]", "nvidia.com/gpu.count").replace("type: GPU", "type: OS");
        assert!(is_missing(no_measurement.as_bytes()));
    }

    #[test]
    fn r25_a_document_with_gpu_data_or_without_any_shape_gives_no_finding() {
        for gpu in [
            "[{subtype: smi, data: {gpu-count: 8}}]",
            "[{subtype: hardware, data: {gpu-count: 1}}, {subtype: smi, data: {gpu-count: 0}}]",
            "[{subtype: smi, data: {driver: '580.1'}}]",
        ] {
            assert!(!is_missing(document(gpu, "nvidia.com/gpu.present").as_bytes()), "{gpu}");
        }
        for other in
            ["", "nvidia.com/gpu.present: [", "- nvidia.com/gpu.present", "measurements: nvidia.com/gpu.present"]
        {
            assert!(!is_missing(other.as_bytes()), "{other}");
        }
    }
}
