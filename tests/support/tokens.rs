//! Bearer tokens for users of any name: the API server asks here whose a token is.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewStatus, UserInfo};

/// The tokens that are valid now.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<String, UserInfo>>);

impl Tokens {
    /// A new token for a user.
    pub(crate) fn issue(&self, name: &str, groups: &[&str]) -> String {
        let random = getrandom::u64().expect("random numbers");
        let token = format!("token-{random:016x}");
        let user = UserInfo {
            username: Some(name.to_owned()),
            groups: Some(groups.iter().map(ToString::to_string).collect()),
            ..UserInfo::default()
        };
        self.users().insert(token.clone(), user);
        token
    }

    /// Makes a token invalid, as expiry does.
    pub(crate) fn revoke(&self, token: &str) {
        self.users().remove(token);
    }

    /// Answers the API server's question.
    pub(crate) fn review(&self, mut review: TokenReview) -> TokenReview {
        let token = std::mem::take(&mut review.spec.token);
        let user = self.users().get(&token).cloned();
        review.status =
            Some(TokenReviewStatus { authenticated: Some(user.is_some()), user, ..TokenReviewStatus::default() });
        review
    }

    fn users(&self) -> std::sync::MutexGuard<'_, HashMap<String, UserInfo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
