//! The test bed itself.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::support::bed::Bed;

#[tokio::test]
async fn the_control_plane_answers() {
    let bed = Bed::shared().await;
    let client = bed.admin_client().await;
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.36.3");
    Api::<Namespace>::all(client).get("kube-system").await.unwrap();
}
