//! The snapshot documents that the agent double writes.

use std::fmt::Write;

/// What distinguishes one document from another; equal values give equal bytes.
pub(super) struct Document<'a> {
    /// The node that it speaks of.
    pub(super) node: &'a str,
    /// Anything that differs from run to run.
    pub(super) seed: &'a str,
    /// The length in bytes is at most this and less than a hundred below.
    pub(super) size: usize,
    /// Whether there is GPU data. The topology shows GPU labels in any case.
    pub(super) gpu: bool,
}

impl Document<'_> {
    /// The document as YAML, with what makes real ones awkward: keys that are
    /// empty, numeric or full of punctuation, and strings of several lines.
    pub(super) fn yaml(&self) -> String {
        let node = self.node;
        let seed = fnv(self.seed);
        let mut yaml = format!(
            "kind: Snapshot
apiVersion: aicr.run/v1alpha2
metadata:
  source-node: {node}
  timestamp: \"2026-08-21T14:22:33Z\"
  version: v1.1.2
measurements:
  - type: SystemD
    subtypes:
      - subtype: containerd.service
        data:
          ActiveState: active
          ExecStart: '{{ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd ; pid={} }}'
          MemoryCurrent: {}
          Restart: always
      - subtype: kubelet.service
        data:
          ActiveState: active
          Delegate: false
          Environment: \"KUBELET_EXTRA_ARGS=--node-ip=127.0.0.1\"
",
            seed % 65_536,
            seed % 100_000_000,
        );
        if self.gpu {
            yaml.push_str(GPU);
        }
        let _ = write!(
            yaml,
            "  - type: NodeTopology
    subtypes:
      - subtype: summary
        data:
          node-count: 1
          label-count: 3
      - subtype: label
        data:
          kubernetes.io/hostname: {node}|{node}
          nvidia.com/gpu.present: 'true|{node}'
          nvidia.com/gpu.product: 'NVIDIA-H100-80GB-HBM3|{node}'
      - subtype: taint
        data:
          nvidia.com/gpu: 'NoSchedule|present|{node}'
"
        );
        yaml.push_str(KUBERNETES);
        yaml.push_str(OPERATING_SYSTEM);
        self.fill(&mut yaml, seed);
        yaml
    }

    /// Ends the document with as many kernel settings as fit.
    fn fill(&self, yaml: &mut String, mut state: u64) {
        for number in 0.. {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let line = format!("          /proc/sys/net/ipv4/conf/eth{number}/setting: \"{state:016x}\"\n");
            if yaml.len() + line.len() > self.size {
                break;
            }
            yaml.push_str(&line);
        }
    }
}

const GPU: &str = "  - type: GPU
    subtypes:
      - subtype: smi
        data:
          cuda-version: \"13.0\"
          driver: 580.82.07
          gpu-count: 8
          gpu.0.name: NVIDIA H100 80GB HBM3
          gpu.0.persistence-mode: true
          gpu.0.power-limit: 700.00 W
          \"0\": first
          0000:18:00.0: NVLink
";

const KUBERNETES: &str = "  - type: K8s
    subtypes:
      - subtype: server
        data:
          version: v1.36.3
          platform: linux/amd64
      - subtype: policy
        data:
          \"\": \"\"
          driver.enabled: true
          driver.rdma.useHostMofed: false
          mig.strategy: \"null\"
          toolkit.config: |
            # several lines
            [nvidia-container-runtime]
              debug = \"/var/log/runtime.log\"

            mode: 'cdi'
";

const OPERATING_SYSTEM: &str = "  - type: OS
    subtypes:
      - subtype: grub
        data:
          BOOT_IMAGE: /boot/vmlinuz-6.8.0-79-generic
          hugepagesz: 2M
          quiet: \"\"
      - subtype: kmod
        data:
          nvidia_uvm: true
          nouveau: false
      - subtype: release
        data:
          ID: ubuntu
          PRETTY_NAME: \"Ubuntu 24.04.3 LTS\"
          VERSION_ID: \"24.04\"
      - subtype: sysctl
        data:
";

/// FNV-1a, for numbers that look like a node's.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn document(size: usize, gpu: bool) -> String {
        Document { node: "worker-1", seed: "run", size, gpu }.yaml()
    }

    #[test]
    fn a_document_has_the_shape_of_r26_and_the_size_asked_for() {
        for size in [15 * 1024, 1024 * 1024] {
            let text = document(size, true);
            assert!(text.len() <= size && text.len() > size - 100, "{}", text.len());
            let document: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(document["kind"], "Snapshot");
            for measurement in document["measurements"].as_array().unwrap() {
                assert!(measurement["type"].is_string());
                for subtype in measurement["subtypes"].as_array().unwrap() {
                    assert!(subtype["subtype"].is_string());
                    assert!(subtype["data"].as_object().unwrap().values().all(|value| !value.is_object()));
                }
            }
        }
    }

    #[test]
    fn equal_runs_give_equal_bytes_and_others_do_not() {
        assert_eq!(document(15 * 1024, true), document(15 * 1024, true));
        assert_ne!(
            document(15 * 1024, true),
            Document { node: "worker-1", seed: "other", size: 15 * 1024, gpu: true }.yaml()
        );
        assert!(!document(15 * 1024, false).contains("type: GPU"));
    }
}
