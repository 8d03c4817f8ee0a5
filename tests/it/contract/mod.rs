//! What the in-memory API promises: each case runs on it and on a real kube-apiserver.
#![allow(clippy::needless_pass_by_value, reason = "cases hand over JSON literals")]

mod access;
mod apply;
mod case;
mod collect;
mod create;
mod delete;
mod discovery;
mod list;
mod patch;
mod pods;
mod update;
mod watch;

/// Makes two tests of each case, an async function that takes a [`case::Case`]: one for each server.
macro_rules! contract {
    ($($case:ident),* $(,)?) => {$(
        mod $case {
            #[tokio::test]
            async fn in_memory() {
                super::$case(crate::contract::case::Case::in_memory().await).await;
            }

            #[tokio::test]
            async fn on_kube_apiserver() {
                super::$case(crate::contract::case::Case::on_kube_apiserver().await).await;
            }
        }
    )*};
}
use contract;
