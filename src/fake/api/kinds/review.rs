//! Questions that are answered and not stored.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};

use super::super::kind::{Kind, Serves, decode};
use super::PLAIN;

const REVIEW: Kind = Kind { group: "authorization.k8s.io", namespaced: false, serves: Serves::Reviews, ..PLAIN };

pub(crate) static SELF_SUBJECT_REVIEW: Kind = Kind {
    group: "authentication.k8s.io",
    name: "SelfSubjectReview",
    plural: "selfsubjectreviews",
    singular: "selfsubjectreview",
    decode: decode::<SelfSubjectReview>,
    ..REVIEW
};

pub(crate) static LOCAL_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    name: "LocalSubjectAccessReview",
    plural: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    namespaced: true,
    decode: decode::<LocalSubjectAccessReview>,
    ..REVIEW
};

pub(crate) static SELF_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    name: "SelfSubjectAccessReview",
    plural: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    decode: decode::<SelfSubjectAccessReview>,
    ..REVIEW
};

pub(crate) static SELF_SUBJECT_RULES_REVIEW: Kind = Kind {
    name: "SelfSubjectRulesReview",
    plural: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    decode: decode::<SelfSubjectRulesReview>,
    ..REVIEW
};

pub(crate) static SUBJECT_ACCESS_REVIEW: Kind = Kind {
    name: "SubjectAccessReview",
    plural: "subjectaccessreviews",
    singular: "subjectaccessreview",
    decode: decode::<SubjectAccessReview>,
    ..REVIEW
};
