//! The same on a real API server, which says itself whom it took the caller for.

use std::collections::BTreeSet;

use crate::support::{
    cli::{Home, Outcome},
    kubeconfig::{Credential, User},
    scene::Scene,
};

/// Whom the API server took the caller for, and in which namespace, in the words of its refusals.
fn taken_for(outcome: &Outcome) -> String {
    let text = outcome.stderr().replace('\n', " ");
    let after = |words: &str| {
        let found = text.split(words).skip(1).filter_map(|rest| rest.split('"').next());
        found.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    match (outcome.status(), after("User \""), after("in the namespace \"")) {
        (Some(0), ..) => "may".to_owned(),
        (_, user, _) if user.is_empty() => "fails".to_owned(),
        (_, user, namespace) => format!("{user} may not in {namespace}"),
    }
}

fn token_of(user: &User) -> String {
    match &user.credential {
        Credential::Token(token) => token.clone(),
        Credential::Certificate(_) => unreachable!("this user has a token"),
    }
}

#[tokio::test]
async fn r39_a_real_api_server_takes_the_plugin_for_whom_it_takes_kubectl() {
    let scene = Scene::new("taken-for").await;
    let (bed, space) = (&scene.bed, scene.namespace.name.as_str());
    let weak = bed.user("weak", &[]);
    let other = bed.user("other", &[]);
    let carol = bed.user_with_certificate("carol", None);
    let expired = bed.user("expired", &["system:masters"]);
    bed.revoke(&expired);
    let robot = User::with_token("robot", &bed.token_for(space, "default").await);
    let (other_token, expired_token) = (token_of(&other), token_of(&expired));
    let home = |user: &User| Home::new().kubeconfig(&bed.kubeconfig(user, Some(space)));
    let admin = home(bed.admin());
    let (weak, carol, robot, expired) = (home(&weak), home(&carol), home(&robot), home(&expired));
    let account = format!("system:serviceaccount:{space}:default");
    let here = |user: &str| format!("{user} may not in {space}");
    let both = format!("--token {other_token}");

    let cases = [
        (&admin, "", "may".to_owned()),
        (&weak, "", here("weak")),
        (&weak, "-n kube-public", "weak may not in kube-public".to_owned()),
        (&weak, both.as_str(), here("other")),
        (&weak, &format!("--token {expired_token}"), "fails".to_owned()),
        (&expired, "", "fails".to_owned()),
        (&carol, "", here("carol")),
        // The API server looks at the certificate first.
        (&carol, &both, here("carol")),
        (&robot, "", here(&account)),
        (&admin, "--as jane", here("jane")),
        (&admin, "--as jane --as-group dev --as-uid 7", here("jane")),
        (&admin, "--as jane --as-user-extra example.org/team=gpu", here("jane")),
        (&admin, "--as jane --as-group dev --as-group system:masters", "may".to_owned()),
        (&admin, "--as jane --as-group dev,system:masters", here("jane")),
        (&admin, &format!("--as {account}"), here(&account)),
        (&admin, "--insecure-skip-tls-verify", "may".to_owned()),
        (&admin, "--tls-server-name kubernetes.default.svc", "may".to_owned()),
        (&admin, "--tls-server-name other.test", "fails".to_owned()),
    ];
    for (home, flags, expected) in cases {
        let kubectl = home.program("kubectl", ["get", "configmaps"]).args(flags.split_whitespace()).run().await;
        assert_eq!(taken_for(&kubectl), expected, "{kubectl}");
        let ours = home.aicr(["orphans"]).args(flags.split_whitespace()).run().await;
        assert_eq!(taken_for(&ours), expected, "{ours}");
    }
}
