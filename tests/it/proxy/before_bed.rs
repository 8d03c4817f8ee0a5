//! The proxy in front of a real API server.

use futures::StreamExt as _;
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, Client,
    api::{PostParams, WatchEvent, WatchParams},
};

use super::rig::Http;
use crate::support::{
    bed::Bed,
    kubeconfig::{self, Credential, User},
    proxy::{End, Fault, Limit, Proxy, Status, after, answer, before, cut, get, post},
};

async fn who_is(client: Client) -> String {
    let review = Api::<SelfSubjectReview>::all(client);
    let review = review.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    review.status.unwrap().user_info.unwrap().username.unwrap()
}

async fn client(proxy: &Proxy, user: &User) -> Client {
    kubeconfig::client(&proxy.kubeconfig(user, None)).await
}

#[tokio::test]
async fn a_token_passes_and_a_certificate_can_be_the_proxys() {
    let bed = Bed::shared().await;
    let proxy = Proxy::before(bed).start().await;
    assert_eq!(who_is(client(&proxy, &bed.user("jane", &[])).await).await, "jane");

    let Credential::Certificate(identity) = &bed.admin().credential else {
        panic!("the admin has a certificate");
    };
    let proxy = Proxy::before(bed).identity(identity.clone()).start().await;
    assert_eq!(who_is(client(&proxy, bed.admin()).await).await, bed.admin().name);
}

#[tokio::test]
async fn faults_happen_to_real_requests() {
    let bed = Bed::shared().await;
    for http in [Http::One, Http::Two] {
        let namespace = bed.namespace("proxy").await;
        let admin = bed.user("proxy-admin", &["system:masters"]);
        let builder = Proxy::before(bed);
        let proxy = if http == Http::One { builder.http1_only() } else { builder }.start().await;
        let client = client(&proxy, &admin).await;
        let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace.name);
        let map = |name: &str| ConfigMap {
            metadata: kube::api::ObjectMeta { name: Some(name.into()), ..Default::default() },
            ..Default::default()
        };
        let create = async |name: &str| maps.create(&PostParams::default(), &map(name)).await;
        let path = "/api/v1/namespaces/*/configmaps";

        let rule = proxy.on(post(path), before(Fault::Drop));
        create("dropped").await.unwrap_err();
        rule.lift();
        let rule = proxy.on(post(path), after(Fault::Reset));
        create("committed").await.unwrap_err();
        rule.lift();
        assert!(maps.get_opt("dropped").await.unwrap().is_none());
        assert!(maps.get_opt("committed").await.unwrap().is_some());

        let rule = proxy.on(post(path), answer(Status::already_exists()));
        let kube::Error::Api(status) = create("taken").await.unwrap_err() else {
            panic!("not a Status");
        };
        rule.lift();
        assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
        assert_eq!(status.message, r#"configmaps "taken" already exists"#);

        let namespaces = Api::<Namespace>::all(client);
        proxy.on(get("/api/v1/namespaces").query("watch=true"), cut(Limit::Lines(1), End::Error(Status::expired())));
        let mut events = Box::pin(namespaces.watch(&WatchParams::default(), "0").await.unwrap());
        assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Added(_)));
        let WatchEvent::Error(gone) = events.next().await.unwrap().unwrap() else {
            panic!("not an error");
        };
        assert_eq!(gone.code, 410);
        assert!(events.next().await.is_none());
    }
}
