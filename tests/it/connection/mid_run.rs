//! Tokens that end while a run is under way.

use std::{fs, path::Path, time::Duration};

use serde_json::json;

use crate::support::{
    bed::Bed,
    cli::Home,
    kubeconfig::{Credential, User},
    proxy::{Entry, Fault, Proxy, before, get, post},
    scene::Scene,
    wait::until,
};

/// Gives the plugin a new token, and waits until the last one is worthless: the API server remembers a token for seconds.
async fn rotate(bed: &Bed, last: Option<&User>, home: &Path) -> User {
    let user = bed.user("short-lived", &["system:masters"]);
    let Credential::Token(token) = &user.credential else { unreachable!("users of this kind have tokens") };
    fs::write(home.join("token.new"), token).unwrap();
    fs::rename(home.join("token.new"), home.join("token")).unwrap();
    if let Some(last) = last {
        bed.revoke(last);
        let client = bed.client(last).await;
        until("the last token to be refused", async || {
            let refused = client.apiserver_version().await.err()?;
            matches!(refused, kube::Error::Api(status) if status.code == 401).then_some(())
        })
        .await;
    }
    user
}

#[tokio::test]
async fn r39_short_lived_tokens_of_a_plugin_are_renewed_in_the_middle_of_a_run() {
    let bed = Bed::shared().await;
    let proxy = Proxy::before(bed).start().await;
    let scene = Scene::behind("mid-run", &proxy).await;
    let home = Home::new();
    let script = "#!/bin/sh\necho >>\"$HOME/calls\"\n\
        echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"'\"$(cat \"$HOME/token\")\"'\"}}'\n";
    let plugin = home.write_program("plugin", script);
    let known = proxy.kubeconfig(&User::with_token("plugin", "none"), Some(&scene.namespace.name));
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": plugin,
    });
    let home = home.kubeconfig(&known.replace("token: none", &format!("exec: {exec}")));

    let first = rotate(bed, None, home.path()).await;
    let create = proxy.on(post("**/jobs").matching(Entry::is_write), before(Fault::Hold));
    let fetch = proxy.on(get("/api/v1/namespaces/*/configmaps/*"), before(Fault::Hold));
    let image = "registry.test/aicr:success";
    let args = ["snapshot", "--image", image, "--run-id", &scene.run_id, "-o", "out.yaml", "--request-timeout", "3m"];
    let running = home.aicr(args).deadline(Duration::from_mins(6)).spawn();
    create.arrived().await;
    let second = rotate(bed, Some(&first), home.path()).await;
    create.release();
    fetch.arrived().await;
    rotate(bed, Some(&second), home.path()).await;
    fetch.release();
    running.wait().await.code(0);

    assert_eq!(home.read("calls").lines().count(), 3, "once at the start, and once for each token that ended");
    assert_eq!(home.read("out.yaml"), scene.document());
    scene.assert_clean().await;
}
