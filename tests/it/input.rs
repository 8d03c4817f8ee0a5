//! Bad input: refused before any request is sent, naming flag, value and rule.

use std::fs;

use crate::support::{bed::Bed, cli::Home, proxy::Proxy};

/// Arguments after `snapshot`, and what stderr must name.
const REFUSED: &[(&[&str], &[&str])] = &[
    (&["--run-id", "Upper"], &["--run-id", "Upper", "DNS-1123 label"]),
    (&["--run-id", "under_score"], &["--run-id", "under_score"]),
    (&["--run-id", "-lead"], &["--run-id", "-lead"]),
    (&["--run-id", "dot.ted"], &["--run-id", "dot.ted"]),
    (&["--run-id", "x234567890123456789012345678901234567890123456789012345678901234"], &["--run-id", "1 to 63"]),
    (&["--job-name", "Snap"], &["--job-name", "Snap", "Snap-"]),
    (&["--job-name", "-x"], &["--job-name", "-x"]),
    (&["--service-account-name", "my_sa"], &["--service-account-name", "my_sa-"]),
    (&["--toleration", "gpu"], &["--toleration", "gpu", "key=value:Effect"]),
    (&["--toleration", "gpu=yes:Never"], &["--toleration", "NoSchedule"]),
    (&["--toleration", ":NoSchedule"], &["--toleration", "key"]),
    (&["--requests", "cpu"], &["--requests", "cpu", "RESOURCE=QUANTITY"]),
    (&["--requests", "memory=1gb"], &["--requests", "1gb", "quantity"]),
    (&["--limits", "cpu=-1"], &["--limits", "-1"]),
    (&["--limits", "c p=1"], &["--limits", "c p"]),
    (&["--node-selector", "gpu"], &["--node-selector", "gpu", "key=value"]),
    (&["--node-selector", "a b=c"], &["--node-selector", "a b"]),
    (&["--node-selector", "a=b c"], &["--node-selector", "b c"]),
    (&["--timeout", "5"], &["--timeout", "5", "90s"]),
    (&["--timeout", "0s"], &["--timeout", "0s"]),
    (&["--timeout", "-3s"], &["--timeout", "-3s"]),
    (&["--timeout", "soon"], &["--timeout", "soon"]),
    (&["--cleanup-timeout", "1d"], &["--cleanup-timeout", "1d"]),
    (&["--request-timeout", "soon"], &["--request-timeout", "soon"]),
    (&["-o", "yaml"], &["--format yaml", "./yaml"]),
    (&["-o", "json"], &["--format json"]),
    (&["-o", "jsonpath={.kind}"], &["jsonpath"]),
    (&["-o", ""], &["--output"]),
    (&["-o", "cm://gpu"], &["cm://NAMESPACE/NAME"]),
    (&["-o", "cm://Gpu/x"], &["cm://Gpu/x"]),
    (&["-o", "cm://gpu/x/y"], &["cm://gpu/x/y"]),
    (&["-o", "missing/dir/file.yaml"], &["--output", "missing/dir/file.yaml"]),
    (&["-o", "."], &["--output"]),
    (&["-o", "cm://gpu/x", "--format", "json"], &["--format", "cm://"]),
    (&["--format", "xml"], &["--format", "xml", "yaml, json or table"]),
    (&["--image", "UPPER/x:1"], &["--image", "UPPER/x:1", "lower case"]),
    (&["--image", "ghcr.io/Nvidia/aicr"], &["--image", "ghcr.io/Nvidia/aicr"]),
    (&["--image", ""], &["--image"]),
    (&["--image-pull-secret", "My_Secret"], &["--image-pull-secret", "My_Secret"]),
    (&["--runtime-class", "Nvidia"], &["--runtime-class", "Nvidia"]),
    (&["--os", "Talos Linux"], &["--os", "Talos Linux"]),
    (&["--max-nodes-per-entry", "0"], &["--max-nodes-per-entry", "0"]),
    (&["--max-nodes-per-entry", "many"], &["--max-nodes-per-entry", "many"]),
    (&["--require-gpu", "--runtime-class", "nvidia"], &["--require-gpu", "--runtime-class"]),
    (&["--no-cleanup", "--keep-job"], &["--no-cleanup", "--keep-job"]),
    (&["--privileged=maybe"], &["--privileged", "maybe"]),
    (&["-n", "Not_A_Namespace"], &["--namespace", "Not_A_Namespace"]),
    (&["--imgae", "x"], &["--imgae", "--image"]),
    (&["surplus"], &["surplus"]),
    (&["--context", "nowhere"], &["nowhere", "context"]),
    (&["--kubeconfig", "absent.yaml"], &["absent.yaml", "does not exist"]),
    (&["--user", "nobody"], &["nobody"]),
    (&["--certificate-authority", ".kube/ca.pem", "--insecure-skip-tls-verify"], &["insecure"]),
];

#[tokio::test]
async fn bad_input_exits_2_names_what_is_wrong_and_sends_no_request() {
    let bed = Bed::shared().await;
    let proxy = Proxy::before(bed).start().await;
    let user = bed.user("careless", &["system:masters"]);
    let home = Home::new().kubeconfig(&proxy.kubeconfig(&user, None));
    home.write(".kube/ca.pem", bed.ca_pem());
    let mut wrong = Vec::new();
    for (args, named) in REFUSED {
        let ran = home.aicr(["snapshot"]).args(*args).run().await;
        let stderr = ran.stderr();
        let unnamed: Vec<_> = named.iter().filter(|text| !stderr.contains(*text)).collect();
        let starts = stderr.starts_with("error: ");
        if ran.status() != Some(2) || !unnamed.is_empty() || !starts || !ran.stdout_bytes().is_empty() {
            wrong.push(format!("{args:?}: exit {:?}, does not name {unnamed:?}:\n{stderr}", ran.status()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(proxy.transcript(), "", "nothing may reach the API server");
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".kube"], "nothing may be left in the working directory");
}

#[tokio::test]
async fn an_unreachable_server_is_one_error_with_its_cause_and_exit_6() {
    let bed = Bed::shared().await;
    let proxy = Proxy::before(bed).start().await;
    let user = bed.user("unlucky", &["system:masters"]);
    let home = Home::new().kubeconfig(&proxy.kubeconfig(&user, None));
    let refused = home.aicr(["snapshot", "--server", "https://127.0.0.1:1"]).run().await;
    refused.code(6).stdout_is("").stderr_has("127.0.0.1:1").stderr_has("refused");
    assert_eq!(refused.stderr().matches("error: ").count(), 1, "{}", refused.stderr());
    // The proxy's certificate is of an authority of its own.
    let untrusted = home.write("other.yaml", &bed.kubeconfig(&user, None));
    let args = ["snapshot", "--kubeconfig", untrusted.to_str().unwrap(), "--server", proxy.url()];
    home.aicr(args).run().await.code(6).stderr_has("certificate");
}

#[tokio::test]
async fn an_invalid_token_exits_4_and_a_missing_configuration_2() {
    let bed = Bed::shared().await;
    let user = bed.user("expired", &["system:masters"]);
    let home = Home::new().kubeconfig(&bed.kubeconfig(&user, None));
    bed.revoke(&user);
    home.aicr(["snapshot"]).run().await.code(4).stdout_is("").stderr_has("error: ");
    Home::new().aicr(["snapshot"]).run().await.code(2).stderr_has("--kubeconfig");
}

#[tokio::test]
async fn help_goes_to_stdout_and_speaks_of_kubectl_aicr() {
    let home = Home::new();
    home.aicr(["--help"]).run().await.code(0).stdout_has("Usage: kubectl aicr").stderr_is("");
    home.aicr(["snapshot", "--help"]).run().await.code(0).stdout_has("Usage: kubectl aicr snapshot");
    home.aicr([""; 0]).run().await.code(2).stdout_is("").stderr_has("Usage: kubectl aicr");
}
