use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::judge::{Filter, Judgement, Orphan, judge};
use super::live::{JobsSeen, Live, Sight};
use crate::agent::cleanup::Reason;
use crate::agent::created_set::{Change, Entries, Left, Uid};
use crate::agent::labels::{self, Marks};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::run_id::{InvocationId, RunId};
use crate::ledger::{ClusterId, Header, Past, Reading};

const RUN: &str = "nightly";

fn now() -> Timestamp {
    "2026-08-21T14:22:33Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn run_id(run: &str) -> RunId {
    RunId::parse(run).unwrap()
}

fn invocation(name: &str) -> InvocationId {
    InvocationId::recorded(name.to_owned())
}

fn uid(text: &str) -> Uid {
    Uid::new(text.to_owned()).unwrap()
}

fn job() -> ObjectRef {
    ObjectRef::namespaced(Kind::Job, "gpu", "aicr-nightly")
}

fn role() -> ObjectRef {
    ObjectRef::namespaced(Kind::Role, "gpu", "aicr-nightly")
}

fn cluster_role() -> ObjectRef {
    ObjectRef::cluster(Kind::ClusterRole, "aicr-node-reader-nightly")
}

fn staging() -> ObjectRef {
    ObjectRef::namespaced(Kind::ConfigMap, "gpu", "aicr-agent-snapshot-nightly")
}

/// An object of a run, ten minutes old, with the UID "ours".
fn live(object: ObjectRef, run: &str, by: &str) -> Live {
    let labels = match object.kind {
        Kind::ConfigMap => BTreeMap::from([(labels::NAME.to_owned(), labels::AICR.to_owned())]),
        _ => labels::of_run(&run_id(run), &invocation(by)),
    };
    Live {
        object,
        uid: Some(uid("ours")),
        labels: Marks::of(&labels),
        created: Some(ago(600)),
        terminating: false,
        active: false,
    }
}

/// The labels of an object that "a" made, without this one or with another value of it.
fn labelled(key: &str, value: Option<&str>) -> Marks {
    let mut labels = labels::of_run(&run_id(RUN), &invocation("a"));
    labels.remove(key);
    labels.extend(value.map(|value| (key.to_owned(), value.to_owned())));
    Marks::of(&labels)
}

fn active_job(by: &str) -> Live {
    Live { active: true, ..live(job(), RUN, by) }
}

/// The past of one invocation of the run, dead unless said otherwise.
struct Told {
    by: &'static str,
    entries: Entries,
    live: bool,
}

impl Told {
    fn by(by: &'static str) -> Self {
        Self { by, entries: Entries::default(), live: false }
    }

    fn with(mut self, change: &Change) -> Self {
        self.entries.apply(change);
        self
    }

    fn intended(self, object: ObjectRef, seconds_ago: i64) -> Self {
        self.with(&Change::Intended { objects: vec![object], at: ago(seconds_ago) })
    }

    fn confirmed(self, object: ObjectRef) -> Self {
        self.with(&Change::Confirmed { object, uid: uid("ours") })
    }

    fn left(self, object: ObjectRef, reason: Reason, message: Option<&str>) -> Self {
        let left = Left { reason, message: message.map(str::to_owned) };
        self.with(&Change::Left { object, left, at: ago(300) })
    }

    fn alive(self) -> Self {
        Self { live: true, ..self }
    }
}

/// Ledgers, what stands, and what is known not to.
#[derive(Default)]
struct Scene {
    reading: Reading,
    sight: Sight,
    filter: Filter,
}

impl Scene {
    fn new() -> Self {
        let sight = Sight { jobs: JobsSeen::Everywhere, ..Sight::default() };
        Self { sight, ..Self::default() }
    }

    fn told(mut self, told: Told) -> Self {
        let header = Header {
            run_id: run_id(RUN),
            invocation_id: invocation(told.by),
            cluster: ClusterId::new(&"https://127.0.0.1:6443".parse().unwrap(), None),
            namespace: "gpu".to_owned(),
            job: job(),
            staging: Some(staging()),
            started_at: ago(900),
            pid: 1,
        };
        if told.live {
            self.reading.live.push(header.invocation_id.clone());
        }
        self.reading.pasts.push(Past::imagined(header, told.entries, told.live));
        self
    }

    fn stands(mut self, live: Live) -> Self {
        self.sight.live.add(vec![live]);
        self
    }

    fn absent(mut self, object: ObjectRef) -> Self {
        self.sight.absent.insert(object);
        self
    }

    fn judge(&self) -> Judgement {
        judge(&self.reading, self.sight.clone(), &self.filter, now())
    }

    /// Kinds, runs and reasons of what is listed.
    fn listed(&self) -> Vec<(Kind, String, Reason)> {
        let orphans = self.judge().orphans;
        let seen = |orphan: &Orphan| (orphan.object.kind, orphan.run_id.to_string(), orphan.left.reason);
        orphans.in_order().into_iter().map(seen).collect()
    }

    fn reasons(&self) -> Vec<Reason> {
        self.listed().into_iter().map(|(_, _, reason)| reason).collect()
    }

    fn gone(&self) -> Vec<ObjectRef> {
        self.judge().gone.into_iter().map(|(_, object)| object).collect()
    }
}

#[test]
fn r37_nothing_told_and_nothing_seen_is_nothing() {
    assert_eq!(Scene::new().listed(), []);
}

#[test]
fn r37_what_a_killed_process_created_is_interrupted() {
    let scene = Scene::new()
        .told(Told::by("a").confirmed(role()).intended(cluster_role(), 600))
        .stands(live(role(), RUN, "a"))
        .stands(live(cluster_role(), RUN, "a"));
    let interrupted = |kind| (kind, RUN.to_owned(), Reason::Interrupted);
    assert_eq!(scene.listed(), [interrupted(Kind::Role), interrupted(Kind::ClusterRole)]);
    assert_eq!(scene.gone(), []);
}

#[test]
fn r37_a_recorded_uid_proves_an_object_that_has_lost_its_labels() {
    let bare = Live { labels: Marks::default(), ..live(role(), RUN, "a") };
    assert_eq!(Scene::new().told(Told::by("a").confirmed(role())).stands(bare).reasons(), [Reason::Interrupted]);
}

#[test]
fn r37_what_cleanup_recorded_is_the_reason_while_the_object_stands() {
    let told = Told::by("a").confirmed(cluster_role()).left(cluster_role(), Reason::DeleteFailed, Some("denied"));
    let scene = Scene::new().told(told).stands(live(cluster_role(), RUN, "a"));
    assert_eq!(scene.reasons(), [Reason::DeleteFailed]);
    assert_eq!(scene.judge().orphans.in_order()[0].left.message.as_deref(), Some("denied"));

    let kept = Told::by("a").confirmed(role()).left(role(), Reason::Kept, None);
    assert_eq!(Scene::new().told(kept).stands(live(role(), RUN, "a")).reasons(), [Reason::Kept]);
}

#[test]
fn r33_what_is_being_deleted_is_still_terminating_whatever_was_recorded() {
    let going = || Live { terminating: true, ..live(job(), RUN, "a") };
    for told in [
        Told::by("a").confirmed(job()),
        Told::by("a").confirmed(job()).left(job(), Reason::Kept, None),
        Told::by("a").confirmed(job()).left(job(), Reason::StillTerminating, None),
    ] {
        assert_eq!(Scene::new().told(told).stands(going()).reasons(), [Reason::StillTerminating]);
    }
    assert_eq!(Scene::new().stands(going()).reasons(), [Reason::StillTerminating], "without a record too");
}

#[test]
fn r31_a_lost_answer_proves_nothing_about_a_namesake() {
    let told = || Told::by("a").intended(role(), 600);
    let bare = Live { labels: Marks::default(), ..live(role(), RUN, "a") };
    let nameless = Live { uid: None, ..live(role(), RUN, "a") };
    for (namesake, reason) in [
        (bare, Reason::OwnerMismatch),
        (live(role(), RUN, "b"), Reason::OwnerMismatch),
        (live(role(), "weekly", "a"), Reason::OwnerMismatch),
        (nameless, Reason::MissingUid),
    ] {
        let scene = Scene::new().told(told()).stands(namesake.clone());
        assert_eq!(scene.listed(), [(Kind::Role, RUN.to_owned(), reason)], "{namesake:?}");
        assert_eq!(scene.gone(), [], "the entry stays");
    }
}

#[test]
fn r37_an_object_that_was_replaced_is_gone_and_its_namesake_stands_for_itself() {
    let told = || Told::by("a").confirmed(role());
    let other = |by| Live { uid: Some(uid("other")), ..live(role(), RUN, by) };
    let bare = Live { labels: Marks::default(), ..other("a") };

    let replaced = Scene::new().told(told()).stands(bare);
    assert_eq!((replaced.listed(), replaced.gone()), (vec![], vec![role()]));
    let by_another = Scene::new().told(told()).stands(other("b"));
    assert_eq!((by_another.reasons(), by_another.gone()), (vec![Reason::NoRecord], vec![role()]));
}

#[test]
fn r31_absence_counts_at_once_for_what_stood_and_after_two_minutes_for_what_was_only_intended() {
    let told = Told::by("a").confirmed(job()).intended(role(), 119).intended(cluster_role(), 120);
    let scene = Scene::new().told(told).absent(job()).absent(role()).absent(cluster_role());
    assert_eq!((scene.listed(), scene.gone()), (vec![], vec![job(), cluster_role()]));
}

#[test]
fn r37_what_could_not_be_read_is_neither_listed_nor_gone() {
    let scene = Scene::new().told(Told::by("a").confirmed(role()));
    assert_eq!((scene.listed(), scene.gone()), (vec![], vec![]));
}

#[test]
fn r37_objects_of_an_active_run_are_no_orphans() {
    let all = |scene: Scene| {
        let scene = [role(), cluster_role(), staging()]
            .into_iter()
            .fold(scene, |scene, object| scene.stands(live(object, RUN, "a")));
        scene.stands(active_job("a"))
    };
    assert_eq!(all(Scene::new()).listed(), [], "of another machine");
    let told = Told::by("a").confirmed(job()).confirmed(role()).intended(cluster_role(), 600);
    assert_eq!(all(Scene::new().told(told)).listed(), [], "of a process that was killed");
    let kept = Told::by("a").confirmed(job()).left(role(), Reason::Kept, None);
    assert_eq!(all(Scene::new().told(kept)).listed(), [], "of a run that keeps them");
}

#[test]
fn r37_an_active_job_without_labels_is_known_by_the_ledger() {
    let bare = Live { labels: Marks::default(), ..active_job("a") };
    let scene = Scene::new().told(Told::by("a").confirmed(job())).stands(bare).stands(live(cluster_role(), RUN, "a"));
    assert_eq!(scene.listed(), []);
}

#[test]
fn r37_an_active_job_without_a_run_is_not_listed_either() {
    let stray = Live { labels: labelled(labels::RUN_ID, None), ..active_job("a") };
    assert_eq!(Scene::new().stands(stray).listed(), []);
}

#[test]
fn r37_a_job_that_has_ended_or_is_being_deleted_makes_no_run_active() {
    let terminating = Live { terminating: true, ..live(job(), RUN, "a") };
    for ended in [live(job(), RUN, "a"), terminating] {
        let scene = Scene::new().stands(ended).stands(live(cluster_role(), RUN, "a"));
        assert_eq!(scene.listed().len(), 2);
    }
}

#[test]
fn r37_another_run_being_active_hides_nothing() {
    let mut other = Live { object: ObjectRef::namespaced(Kind::Job, "gpu", "aicr-weekly"), ..active_job("a") };
    other.labels = labelled(labels::RUN_ID, Some("weekly"));
    let scene = Scene::new().stands(other).stands(live(cluster_role(), RUN, "a"));
    assert_eq!(scene.reasons(), [Reason::NoRecord]);
}

#[test]
fn r37_objects_of_a_live_process_are_no_orphans() {
    let told = Told::by("a").confirmed(role()).confirmed(job()).intended(cluster_role(), 1).alive();
    let scene = Scene::new()
        .told(told)
        .stands(live(role(), RUN, "a"))
        .stands(live(cluster_role(), RUN, "a"))
        .stands(live(staging(), RUN, "a"))
        .absent(job());
    assert_eq!((scene.listed(), scene.gone()), (vec![], vec![]));
}

#[test]
fn r37_a_dead_process_that_wonders_does_not_list_the_object_of_a_live_one() {
    let scene = Scene::new()
        .told(Told::by("a").intended(role(), 600))
        .told(Told::by("b").confirmed(role()).alive())
        .stands(live(role(), RUN, "b"));
    assert_eq!(scene.listed(), []);
}

#[test]
fn r37_two_invocations_of_one_run_are_told_apart() {
    let scene = |first, second| {
        Scene::new()
            .told(first)
            .told(second)
            .stands(live(role(), RUN, "b"))
            .stands(Live { uid: Some(uid("other")), ..live(cluster_role(), RUN, "a") })
    };
    let (wondering, proven) = (|| Told::by("a").intended(role(), 600), || Told::by("b").confirmed(role()));
    for scene in [scene(wondering(), proven()), scene(proven(), wondering())] {
        assert_eq!(
            scene.listed(),
            [(Kind::Role, RUN.to_owned(), Reason::Interrupted), (Kind::ClusterRole, RUN.to_owned(), Reason::NoRecord)],
            "proof outweighs doubt, whoever is read first"
        );
    }
}

#[test]
fn r37_without_a_record_an_object_is_starting_for_a_minute() {
    let aged = |seconds| Live { created: Some(ago(seconds)), ..live(cluster_role(), RUN, "a") };
    assert_eq!(Scene::new().stands(aged(59)).reasons(), [Reason::Starting]);
    assert_eq!(Scene::new().stands(aged(60)).reasons(), [Reason::NoRecord]);
    assert_eq!(Scene::new().stands(Live { created: None, ..aged(0) }).reasons(), [Reason::NoRecord]);
    let told = Told::by("a").confirmed(cluster_role());
    assert_eq!(Scene::new().told(told).stands(aged(1)).reasons(), [Reason::Interrupted], "a record knows better");
}

#[test]
fn r37_namesakes_without_our_labels_are_not_listed() {
    for missing in [labels::COMPONENT, labels::MANAGED_BY] {
        let namesake = Live { labels: labelled(missing, None), ..live(role(), RUN, "a") };
        assert_eq!(Scene::new().stands(namesake).listed(), [], "{missing}");
    }
    let admin =
        Live { labels: labelled(labels::COMPONENT, Some(labels::AGENT_RBAC)), ..live(cluster_role(), RUN, "a") };
    assert_eq!(Scene::new().stands(admin).listed(), [], "rights that an administrator keeps");
}

#[test]
fn r37_an_object_that_does_not_say_its_run_is_listed_without_one() {
    let stray = Live { labels: labelled(labels::RUN_ID, None), ..live(role(), RUN, "a") };
    assert_eq!(Scene::new().stands(stray).listed(), [(Kind::Role, String::new(), Reason::NoRecord)]);
}

#[test]
fn r37_cluster_scoped_objects_outlive_their_namespace() {
    let told = Told::by("a").confirmed(job()).confirmed(role()).confirmed(cluster_role());
    let scene = Scene::new().told(told).absent(job()).absent(role()).stands(live(cluster_role(), RUN, "a"));
    assert_eq!(scene.reasons(), [Reason::Interrupted]);
    assert_eq!(scene.gone(), [job(), role()]);
}

#[test]
fn r32_a_staging_config_map_belongs_to_the_job_that_stands() {
    let told = || Told::by("a").confirmed(job());
    let document = || live(staging(), RUN, "a");
    let with_job = Scene::new().told(told()).stands(live(job(), RUN, "a")).stands(document());
    assert_eq!(with_job.reasons(), [Reason::Interrupted, Reason::Interrupted]);

    let without = Scene::new().told(told()).absent(job()).stands(document());
    assert_eq!(without.reasons(), [Reason::StagingJobGone]);
    let other_job = Live { uid: Some(uid("other")), ..live(job(), RUN, "b") };
    let replaced = Scene::new().told(told()).stands(other_job).stands(document());
    assert_eq!(replaced.reasons(), [Reason::StagingJobGone, Reason::NoRecord]);

    let lost = Scene::new().told(Told::by("a").intended(job(), 600));
    let lost = lost.stands(live(job(), RUN, "a")).stands(document());
    assert_eq!(lost.reasons(), [Reason::Interrupted, Reason::Interrupted], "proven by the Job's labels");
}

#[test]
fn r32_what_stands_at_the_staging_name_may_not_be_a_document() {
    let told = || Told::by("a").confirmed(job());
    let users = Live { labels: Marks::default(), ..live(staging(), RUN, "a") };
    let scene = Scene::new().told(told()).absent(job()).stands(users.clone());
    assert_eq!(scene.reasons(), [Reason::NotSnapshotArtifact]);
    assert_eq!(Scene::new().stands(users).listed(), [], "without a record nobody asks");
    let nameless = Live { uid: None, ..live(staging(), RUN, "a") };
    assert_eq!(Scene::new().told(told()).absent(job()).stands(nameless).reasons(), [Reason::MissingUid]);
}

#[test]
fn r32_a_staging_config_map_whose_uid_is_recorded_needs_no_job() {
    let told = || Told::by("a").confirmed(staging());
    assert_eq!(Scene::new().told(told()).stands(live(staging(), RUN, "a")).reasons(), [Reason::Interrupted]);
    let other = Live { uid: Some(uid("other")), ..live(staging(), RUN, "a") };
    let scene = Scene::new().told(told()).stands(other);
    assert_eq!((scene.reasons(), scene.gone()), (vec![Reason::StagingJobGone], vec![staging()]));
}

#[test]
fn r37_a_staging_config_map_without_a_record_is_listed_unless_its_run_is_active() {
    let document = || live(staging(), RUN, "a");
    let listed = |reason| [(Kind::ConfigMap, RUN.to_owned(), reason)];
    assert_eq!(Scene::new().stands(document()).listed(), listed(Reason::StagingJobGone));
    let young = Live { created: Some(ago(1)), ..document() };
    assert_eq!(Scene::new().stands(young).listed(), listed(Reason::StagingJobGone), "its Job came before it");
    let ended = Scene::new().stands(document()).stands(live(job(), RUN, "a"));
    assert_eq!(ended.reasons(), [Reason::NoRecord, Reason::NoRecord]);
    let elsewhere = Live { object: ObjectRef::namespaced(Kind::Job, "other", "aicr-nightly"), ..live(job(), RUN, "a") };
    assert_eq!(Scene::new().stands(document()).stands(elsewhere).listed()[0], listed(Reason::StagingJobGone)[0]);

    let mut users = document();
    users.object.name = "my-snapshot".to_owned();
    assert_eq!(Scene::new().stands(users).listed(), []);
}

#[test]
fn r37_a_namespace_shows_its_own_objects_and_the_cluster_scoped_ones() {
    let elsewhere =
        Live { object: ObjectRef::namespaced(Kind::Role, "other", "aicr-nightly"), ..live(role(), RUN, "a") };
    let mut scene =
        Scene::new().stands(live(role(), RUN, "a")).stands(live(cluster_role(), RUN, "a")).stands(elsewhere);
    assert_eq!(scene.listed().len(), 3);
    scene.filter.namespace = Some("gpu".to_owned());
    let shown: Vec<_> = scene.judge().orphans.in_order().into_iter().map(|orphan| orphan.object.clone()).collect();
    assert_eq!(shown, [role(), cluster_role()]);
}

#[test]
fn r37_one_run_may_be_asked_for() {
    let mut scene = Scene::new().told(Told::by("a").confirmed(role())).stands(live(role(), RUN, "a")).stands(live(
        cluster_role(),
        "weekly",
        "b",
    ));
    scene.filter.run_id = Some(run_id("weekly"));
    assert_eq!(scene.listed(), [(Kind::ClusterRole, "weekly".to_owned(), Reason::NoRecord)]);
    scene.filter.run_id = Some(run_id(RUN));
    assert_eq!(scene.listed(), [(Kind::Role, RUN.to_owned(), Reason::Interrupted)]);
}

#[test]
fn r37_what_may_belong_to_an_active_run_out_of_sight_is_not_listed_but_said() {
    let mut scene = Scene::new().stands(live(role(), RUN, "a")).stands(live(cluster_role(), RUN, "a"));
    scene.sight.jobs = JobsSeen::In(["gpu".to_owned()].into());
    assert_eq!(scene.listed(), [(Kind::Role, RUN.to_owned(), Reason::NoRecord)]);
    assert_eq!(scene.judge().undecided, [cluster_role()]);

    scene.sight.homes.insert(RUN.to_owned(), ["gpu".to_owned()].into());
    assert_eq!(scene.listed().len(), 2, "its binding says that its run is where Jobs were seen");
    scene.sight.homes.insert(RUN.to_owned(), ["gpu".to_owned(), "other".to_owned()].into());
    assert_eq!(scene.judge().undecided, [cluster_role()]);

    let scene = scene.told(Told::by("a").confirmed(cluster_role()));
    assert_eq!((scene.listed().len(), scene.judge().undecided), (2, vec![]), "a record knows better");
}

#[test]
fn r37_orphans_come_by_run_and_then_by_object() {
    let scene = Scene::new().stands(live(cluster_role(), "weekly", "b")).stands(live(role(), RUN, "a")).stands(live(
        ObjectRef::namespaced(Kind::ServiceAccount, "gpu", "aicr-nightly"),
        RUN,
        "a",
    ));
    let order: Vec<_> = scene.listed().into_iter().map(|(kind, run, _)| (run, kind)).collect();
    assert_eq!(
        order,
        [
            (RUN.to_owned(), Kind::ServiceAccount),
            (RUN.to_owned(), Kind::Role),
            ("weekly".to_owned(), Kind::ClusterRole)
        ]
    );
}
