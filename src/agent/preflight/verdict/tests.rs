use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::agent::config::Output;
use crate::error::exit;

fn config() -> Config {
    Config { namespace: "gpu".to_owned(), ..Config::default() }
}

fn allowed(checks: Vec<Check>) -> Vec<Answered> {
    checks.into_iter().map(|check| (check, Answer::Allowed)).collect()
}

fn denied(checks: Vec<Check>) -> Vec<Answered> {
    checks.into_iter().map(|check| (check, Answer::Denied(None))).collect()
}

fn namespace(labels: &[(&str, &str)]) -> Seen {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Seen::There(Box::new(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }))
}

/// Everything as a run wishes it.
fn common(config: &Config) -> Common {
    Common {
        required: allowed(check::of_every_run(config)),
        diagnosis: allowed(check::of_diagnosis(config)),
        create_namespace: (check::create_namespace(config), Answer::Allowed),
        label_namespace: (check::label_namespace(config), Answer::Allowed),
        namespace: namespace(&[(MANAGED_BY, AICR)]),
        output_namespace: check::output_elsewhere(config).map(|_| namespace(&[])),
        runtime_class: None,
        pull_secrets: Vec::new(),
        gpu_node: None,
    }
}

fn role(config: &Config) -> RoleFindings {
    let object = ObjectRef::namespaced(Kind::Role, &config.namespace, "aicr-x");
    let scope = Scope::of(&object);
    RoleFindings {
        dry_run: Ok(()),
        escalate: (check::escalate(Kind::Role, &scope), Answer::Denied(None)),
        bind: (check::bind(Kind::Role, &scope), Answer::Denied(None)),
        held: allowed(check::to_grant(config, &object)),
        object,
        scope,
    }
}

fn own(config: &Config, role: RoleFindings) -> Agent {
    Agent::Own {
        required: allowed(check::of_own_account(config)),
        lost_answers: allowed(check::of_lost_answers(config)),
        roles: vec![role],
    }
}

fn weighed(config: &Config, common: Common, agent: Agent) -> Verdict {
    let names = Names::new(config, &crate::run_id::generate()).unwrap();
    weigh(config, &names, common, agent)
}

fn refusal(code: u16, reason: &str, message: &str) -> Result<(), Box<Status>> {
    Err(Box::new(Status { code, reason: reason.to_owned(), message: message.to_owned(), ..Status::default() }))
}

fn shown(checks: &[Check]) -> Vec<String> {
    checks.iter().map(ToString::to_string).collect()
}

#[test]
fn r15_a_run_that_may_do_everything_is_clear_and_says_what_it_checked() {
    let config = config();
    let verdict = weighed(&config, common(&config), own(&config, role(&config)));
    assert!(verdict.report.is_clear() && verdict.report.warnings.is_empty(), "{:?}", verdict.report);
    assert!(verdict.report.passed.iter().any(|check| check.to_string() == "create jobs.batch in namespace gpu"));
    assert!(matches!(verdict.account, Some(Account::Owned { .. })));
    assert_eq!(verdict.namespace, State::Ready);
}

#[test]
fn r16_without_events_the_run_goes_on_and_is_told_that_it_is_blind() {
    let config = config();
    let common = Common { diagnosis: denied(check::of_diagnosis(&config)), ..common(&config) };
    let report = weighed(&config, common, own(&config, role(&config))).report;
    assert!(report.is_clear());
    assert!(report.warnings[0].contains("list events in namespace gpu"), "{:?}", report.warnings);
}

#[test]
fn r16_a_review_that_is_refused_is_unverified_and_never_passed() {
    let config = config();
    let refused = |check| (check, Answer::Unverified("reviews are forbidden".to_owned()));
    let common =
        Common { required: check::of_every_run(&config).into_iter().map(refused).collect(), ..common(&config) };
    let report = weighed(&config, common, own(&config, role(&config))).report;
    assert!(report.is_clear());
    let count = check::of_every_run(&config).len();
    assert_eq!(report.unverified[0].checks.len(), count);
    assert!(!report.passed.iter().any(|check| check.resource == "jobs"));
    assert!(report.warnings[0].starts_with(&format!("{count} of your permissions are unverified, not passed")));
}

#[test]
fn a_denial_that_the_server_could_not_fully_evaluate_is_said_to_be_one() {
    let config = config();
    let mut common = common(&config);
    common.required[0].1 = Answer::Denied(Some("role \"gone\" not found".to_owned()));
    let report = weighed(&config, common, own(&config, role(&config))).report;
    assert_eq!(shown(&report.missing), ["create jobs.batch in namespace gpu"]);
    assert!(report.warnings[0].contains("role \"gone\" not found"), "{:?}", report.warnings);
}

#[test]
fn r18_create_and_patch_of_the_namespace_are_needed_only_where_they_are_used() {
    let config = config();
    let create = (check::create_namespace(&config), Answer::Denied(None));
    let label = (check::label_namespace(&config), Answer::Denied(None));
    let cases = [
        (namespace(&[(MANAGED_BY, AICR)]), State::Ready, None),
        (namespace(&[(MANAGED_BY, "Helm")]), State::ManagedBy("Helm".to_owned()), None),
        (Seen::Forbidden, State::Unreadable, None),
        (namespace(&[]), State::Unlabelled, Some("patch namespaces \"gpu\" in namespace gpu")),
        (Seen::Absent, State::Absent, Some("create namespaces \"gpu\" in the cluster")),
    ];
    for (seen, state, missing) in cases {
        let common = Common {
            namespace: seen,
            create_namespace: create.clone(),
            label_namespace: label.clone(),
            ..common(&config)
        };
        let verdict = weighed(&config, common, own(&config, role(&config)));
        assert_eq!(verdict.namespace, state);
        assert_eq!(shown(&verdict.report.missing), missing.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn r18_in_an_absent_namespace_the_rules_of_the_role_are_reviewed_instead_of_tried() {
    let config = config();
    let tried = |escalate: Answer| {
        let mut role =
            RoleFindings { dry_run: refusal(404, "NotFound", "namespaces \"gpu\" not found"), ..role(&config) };
        role.held[0].1 = Answer::Denied(None);
        role.escalate.1 = escalate;
        let common = Common { namespace: Seen::Absent, ..common(&config) };
        weighed(&config, common, own(&config, role)).report
    };
    assert_eq!(shown(&tried(Answer::Denied(None)).missing), ["create configmaps in namespace gpu"]);
    assert!(tried(Answer::Allowed).is_clear());
}

#[test]
fn r16_a_404_in_a_namespace_that_may_not_be_read_says_that_it_is_missing() {
    let config = config();
    let role = RoleFindings { dry_run: refusal(404, "NotFound", "namespaces \"gpu\" not found"), ..role(&config) };
    let common = Common { namespace: Seen::Forbidden, ..common(&config) };
    let report = weighed(&config, common, own(&config, role)).report;
    assert_eq!(report.exit_code(), exit::NOT_FOUND);
    assert!(matches!(&report.problems[..], [Problem::NamespaceMissing { namespace, .. }] if namespace == "gpu"));
}

#[test]
fn r18_a_server_that_cannot_try_is_a_warning() {
    let config = config();
    let message = "admission webhook \"x\" does not support dry run";
    let role = RoleFindings { dry_run: refusal(400, "BadRequest", message), ..role(&config) };
    let report = weighed(&config, common(&config), own(&config, role)).report;
    assert!(report.is_clear());
    assert!(report.warnings[0].contains(message), "{:?}", report.warnings);
}

#[test]
fn r18_what_a_policy_would_refuse_is_said_before_anything_is_written() {
    let config = config();
    for (code, reason, exit) in [(403, "Forbidden", exit::NOT_PERMITTED), (422, "Invalid", exit::OTHER)] {
        let role = RoleFindings { dry_run: refusal(code, reason, "no roles on Fridays"), ..role(&config) };
        let report = weighed(&config, common(&config), own(&config, role)).report;
        assert!(report.problems[0].to_string().contains("no roles on Fridays"));
        assert_eq!(report.exit_code(), exit);
    }
}

#[test]
fn r18_whoever_passes_by_escalate_needs_bind_unless_the_rules_are_held() {
    let config = config();
    let tried = |bind: Answer, held: Answer| {
        let mut role = role(&config);
        role.escalate.1 = Answer::Allowed;
        role.bind.1 = bind;
        role.held[0].1 = held;
        shown(&weighed(&config, common(&config), own(&config, role)).report.missing)
    };
    let no = || Answer::Denied(None);
    assert_eq!(tried(no(), no()), ["bind roles.rbac.authorization.k8s.io in namespace gpu"]);
    assert!(tried(no(), Answer::Allowed).is_empty());
    assert!(tried(Answer::Allowed, no()).is_empty());
}

#[test]
fn r15_rules_that_could_not_be_tried_for_want_of_create_are_reported_all_the_same() {
    let config = config();
    let mut role = RoleFindings {
        dry_run: refusal(403, "Forbidden", "User \"u\" cannot create resource \"roles\" in API group"),
        ..role(&config)
    };
    role.held[0].1 = Answer::Denied(None);
    assert!(role.needs_rules());
    let required = check::of_own_account(&config).into_iter().map(|check| {
        let answer = if check.resource == "roles" { Answer::Denied(None) } else { Answer::Allowed };
        (check, answer)
    });
    let agent = Agent::Own { required: required.collect(), lost_answers: Vec::new(), roles: vec![role] };
    let report = weighed(&config, common(&config), agent).report;
    assert_eq!(
        shown(&report.missing),
        [
            "create roles.rbac.authorization.k8s.io in namespace gpu",
            "delete roles.rbac.authorization.k8s.io in namespace gpu",
            "create configmaps in namespace gpu",
        ]
    );
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn r6_an_object_at_a_name_of_the_run_is_found_before_anything_is_written() {
    let config = config();
    let role =
        RoleFindings { dry_run: refusal(409, "AlreadyExists", "roles \"aicr-x\" already exists"), ..role(&config) };
    let object = role.object.clone();
    let verdict = weighed(&config, common(&config), own(&config, role));
    assert_eq!(verdict.in_use, Some(object));
    assert!(verdict.report.is_clear());
}

#[test]
fn r18_a_terminating_namespace_is_one_problem_however_often_it_shows() {
    let config = config();
    let answer = json!({
        "status": "Failure", "code": 403, "reason": "Forbidden",
        "details": { "causes": [{ "reason": "NamespaceTerminating", "message": "it goes", "field": "metadata.namespace" }] },
    });
    let status: Status = serde_json::from_value(answer).unwrap();
    let role = RoleFindings { dry_run: Err(Box::new(status)), ..role(&config) };
    let mut common = common(&config);
    let Seen::There(live) = &mut common.namespace else { unreachable!() };
    live.deletion_timestamp = Some(serde_json::from_str("\"2026-08-21T14:22:33Z\"").unwrap());
    let report = weighed(&config, common, own(&config, role)).report;
    assert_eq!(report.problems, [Problem::NamespaceTerminating { namespace: "gpu".to_owned() }]);
    assert_eq!(report.exit_code(), exit::OTHER);
}

#[test]
fn one_permission_that_two_things_need_is_one_that_is_missing() {
    let config = config();
    let mut common = common(&config);
    let get = common.required.iter_mut().find(|(check, _)| check.to_string() == "get configmaps in namespace gpu");
    get.unwrap().1 = Answer::Denied(None);
    let message = "user \"u\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"get\"]}";
    let role = RoleFindings { dry_run: refusal(403, "Forbidden", message), ..role(&config) };
    let report = weighed(&config, common, own(&config, role)).report;
    assert_eq!(shown(&report.missing), ["get configmaps in namespace gpu"]);
    assert!(report.missing[0].needed_for.starts_with("read the snapshot; grant it to the agent"));
}

#[test]
fn r11_what_depends_on_an_account_that_may_not_be_looked_for_is_left_open() {
    let config = Config { service_account_name: Some("irsa-sa".to_owned()), ..config() };
    let verdict = weighed(&config, common(&config), Agent::Unknown(check::find_account(&config, "irsa-sa")));
    assert_eq!(verdict.account, None);
    assert_eq!(shown(&verdict.report.missing), ["get serviceaccounts \"irsa-sa\" in namespace gpu"]);
}

#[test]
fn r17_an_account_is_reviewed_for_every_rule_in_every_place() {
    let elsewhere = Output::ConfigMap { namespace: "out".to_owned(), name: "snap".to_owned() };
    let counts = [(false, Output::Staging, 22), (false, elsewhere, 26), (true, Output::Staging, 51)];
    for (discover_network, output, count) in counts {
        let config = Config { discover_network, output, ..config() };
        assert_eq!(check::of_existing_account(&config, "sa").len(), count);
    }
}

#[test]
fn r17_an_account_without_a_rule_is_named_with_the_command_that_gives_it() {
    let config = config();
    let mut rules = allowed(check::of_existing_account(&config, "irsa-sa"));
    rules[0].1 = Answer::Denied(None);
    let annotations = [("eks.amazonaws.com/role-arn".to_owned(), "arn:aws:iam::1:role/r".to_owned())].into();
    let agent = Agent::Existing { name: "irsa-sa".to_owned(), annotations, rules };
    let report = weighed(&config, common(&config), agent).report;
    assert_eq!(report.missing[0].who.to_string(), "ServiceAccount gpu/irsa-sa");
    assert_eq!(report.exit_code(), exit::NOT_PERMITTED);
    assert!(report.account.unwrap().commands()[0].contains("roles --service-account irsa-sa -n gpu"));
    assert!(report.notes.contains(&"runs as gpu/irsa-sa, role-arn arn:aws:iam::1:role/r".to_owned()));
}

#[test]
fn r25_gpu_nodes_are_chosen_only_where_they_are_known() {
    let config = config();
    let chosen = |gpu_node| {
        let common = Common { gpu_node, ..common(&config) };
        let verdict = weighed(&config, common, own(&config, role(&config)));
        assert!(verdict.report.is_clear());
        (verdict.chosen_selector.is_some(), verdict.report.warnings.len(), verdict.report.notes.len())
    };
    assert_eq!(chosen(None), (false, 0, 0));
    assert_eq!(chosen(Some(Ok(false))), (false, 0, 0));
    assert_eq!(chosen(Some(Ok(true))), (true, 0, 1));
    assert_eq!(chosen(Some(Err("cannot look".to_owned()))), (false, 1, 0));
}
