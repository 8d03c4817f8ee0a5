use std::collections::BTreeMap;
use std::io::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::agent::cleanup::{Fate, Reason, Removal};
use crate::agent::created_set::{Claim, CreatedSet, Entries, Left, Uid};
use crate::agent::event::{Event, Events};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::run_id::InvocationId;

const NAMES: usize = 5;

fn header() -> Header {
    let run_id = crate::run_id::generate();
    Header {
        invocation_id: InvocationId::generate(),
        cluster: ClusterId::new(&"https://127.0.0.1:6443".parse().unwrap(), Uid::new("kube-system".to_owned())),
        namespace: "gpu".to_owned(),
        job: object(0),
        staging: Some(ObjectRef::namespaced(Kind::ConfigMap, "gpu", &crate::staging_config_map_name(&run_id))),
        run_id,
        started_at: Timestamp::UNIX_EPOCH,
        pid: std::process::id(),
    }
}

fn object(index: usize) -> ObjectRef {
    match index {
        0 => ObjectRef::namespaced(Kind::Job, "gpu", "aicr-1"),
        index => ObjectRef::cluster(Kind::ClusterRole, &format!("aicr-node-reader-{index}")),
    }
}

fn uid(text: &str) -> Uid {
    Uid::new(text.to_owned()).unwrap()
}

fn left(message: &str) -> Left {
    Left { reason: Reason::DeleteFailed, message: Some(message.to_owned()) }
}

fn settled(index: usize, uid_text: Option<&str>, fate: Fate) -> Removal {
    Removal { object: object(index), uid: uid_text.map(uid), fate }
}

fn refused(message: &str) -> Fate {
    let status = kube::core::Status { message: message.to_owned(), code: 403, ..kube::core::Status::default() };
    Fate::Failed(crate::error::ApiError::new("delete it", kube::Error::Api(Box::new(status))))
}

fn intended(index: usize) -> Change {
    Change::Intended { objects: vec![object(index)], at: Timestamp::UNIX_EPOCH }
}

/// The one past in a directory without problems.
fn only_past(directory: &Path) -> Past {
    let reading = read(directory);
    assert_eq!(reading.problems, [""; 0]);
    assert_eq!(reading.pasts.len(), 1);
    reading.pasts.into_iter().next().unwrap()
}

fn warnings(events: &mut tokio::sync::mpsc::UnboundedReceiver<Event>) -> Vec<String> {
    let mut warnings = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::Warning(warning) = event {
            warnings.push(warning);
        }
    }
    warnings
}

#[test]
fn r35_what_a_set_holds_is_read_back_after_its_process_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (header, set) = (header(), CreatedSet::default());
    set.keep_on_disk(directory.path(), &header, Events::nowhere());
    set.intend([&object(0), &object(1), &object(2), &object(3)]);
    set.confirm(&object(0), uid("j"));
    set.withdraw(&object(1));
    set.settle(&settled(2, None, refused("no")));

    let past = only_past(directory.path());
    assert!(past.live, "the set still holds its ledger");
    assert_eq!(past.header, header);
    assert_eq!(past.entries.as_slice(), set.entries());

    drop(set);
    let past = only_past(directory.path());
    assert!(!past.live);
    let entries = past.entries.as_slice();
    assert_eq!(entries.iter().map(|entry| &entry.object).collect::<Vec<_>>(), [&object(0), &object(2), &object(3)]);
    assert_eq!(entries[0].claim, Claim::Confirmed { uid: uid("j") });
    assert_eq!(entries[1].left, Some(left("cannot delete it: no")));
    assert!(matches!(entries[2].claim, Claim::Intended { .. }));
}

#[test]
fn r35_an_intent_is_on_disk_when_recording_it_returns() {
    let directory = tempfile::tempdir().unwrap();
    let set = CreatedSet::default();
    set.keep_on_disk(directory.path(), &header(), Events::nowhere());
    for index in 0..3 {
        set.intend([&object(index)]);
        assert_eq!(only_past(directory.path()).entries.as_slice().len(), index + 1);
    }
}

#[test]
fn r35_a_run_that_left_nothing_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let set = CreatedSet::default();
    set.keep_on_disk(directory.path(), &header(), Events::nowhere());
    set.intend([&object(0)]);
    set.withdraw(&object(0));
    set.close_if_empty();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn r35_only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state").join("kubectl-aicr");
    let ledger = Ledger::open(&directory, &header()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(ledger.path()), 0o600);
}

#[test]
fn r35_a_directory_that_cannot_be_written_is_one_warning_and_the_set_goes_on() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (events, mut receiver) = Events::channel();
    let set = CreatedSet::default();
    set.keep_on_disk(&file.path().join("below-a-file"), &header(), events);
    set.intend([&object(0)]);
    set.confirm(&object(0), uid("j"));
    set.close_if_empty();
    let warnings = warnings(&mut receiver);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("below-a-file") && warnings[0].contains("the run goes on"), "{warnings:?}");
    assert_eq!(set.uid_of(&object(0)), Some(uid("j")));
}

#[cfg(target_os = "linux")]
#[test]
fn r35_a_write_that_fails_half_way_is_one_warning_and_the_set_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(directory.path(), &header()).unwrap();
    ledger.file = File::options().append(true).open("/dev/full").unwrap();
    let (first, second) = (ledger.append(&intended(0)), ledger.append(&intended(1)));
    assert_eq!(first.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(second.is_ok(), "said once");
}

#[test]
fn r35_two_invocations_write_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let ledgers: Vec<_> = (0..2)
        .map(|index| {
            let mut ledger = Ledger::open(directory.path(), &header()).unwrap();
            ledger.append(&intended(index)).unwrap();
            ledger
        })
        .collect();
    let reading = read(directory.path());
    assert_eq!((reading.pasts.len(), reading.live.len(), reading.problems.len()), (2, 2, 0));
    drop(ledgers);
    assert!(read(directory.path()).pasts.iter().all(|past| !past.live && past.entries.as_slice().len() == 1));
}

#[test]
fn r37_readers_do_not_take_one_another_for_the_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = Ledger::open(directory.path(), &header()).unwrap().path().to_owned();
    let other_reader = File::open(path).unwrap();
    other_reader.lock_shared().unwrap();
    assert!(!only_past(directory.path()).live);
}

#[test]
fn r35_what_is_no_ledger_is_said_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(directory.path(), &header()).unwrap();
    ledger.append(&intended(0)).unwrap();
    let whole = fs::read(ledger.path()).unwrap();
    drop(ledger);
    let first_line = whole.iter().position(|&byte| byte == b'\n').unwrap();
    let newer = String::from_utf8(whole.clone()).unwrap().replace("\"schemaVersion\":1", "\"schemaVersion\":2");
    let foreign: [(&str, &[u8], &str); 8] = [
        ("a-text.txt", b"hello\nworld\n", "not a ledger"),
        ("b-json.jsonl", b"{\"kind\":\"List\",\"schemaVersion\":1}\n", "not a ledger"),
        ("c-binary", b"\x00\xff\xfe\n", "not a ledger"),
        ("d-empty.jsonl", b"", "cut off in its first line"),
        ("e-cut.jsonl", &whole[..first_line], "cut off in its first line"),
        ("f-newer.jsonl", newer.as_bytes(), "newer kubectl-aicr (schema version 2)"),
        ("g-bare.jsonl", b"{\"kind\":\"kubectl-aicr-ledger\",\"schemaVersion\":1}\n", "header cannot be read"),
        ("h-long", &vec![b'{'; usize::try_from(2_u64 << 20).unwrap()], "too long"),
    ];
    for (name, content, _) in &foreign {
        fs::write(directory.path().join(name), content).unwrap();
    }
    fs::create_dir(directory.path().join("i-directory")).unwrap();
    fs::write(directory.path().join(".hidden"), "not ours to judge").unwrap();

    let reading = read(directory.path());
    assert_eq!(reading.pasts.len(), 1, "the whole one is read");
    assert_eq!(reading.problems.len(), foreign.len() + 1, "{:#?}", reading.problems);
    for ((name, content, expected), problem) in foreign.iter().zip(&reading.problems) {
        assert!(problem.contains(name) && problem.contains(expected), "{problem}");
        assert_eq!(fs::read(directory.path().join(name)).unwrap(), *content);
    }
}

#[test]
fn r35_a_ledger_that_was_cut_off_can_be_taken_up_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(directory.path(), &header()).unwrap();
    ledger.append(&intended(0)).unwrap();
    ledger.file.write_all(b"{\"intended\":{\"obj").unwrap();
    drop(ledger);

    let reading = read(directory.path());
    assert!(reading.problems[0].contains("line 3 cannot be read"), "{:?}", reading.problems);
    let set = CreatedSet::resume(&reading.pasts[0], Events::nowhere());
    set.settle(&settled(0, None, Fate::Refused(Reason::OwnerMismatch)));
    drop(set);

    let entries = read(directory.path()).pasts[0].entries.clone();
    assert_eq!(entries.as_slice().len(), 1);
    assert_eq!(entries.as_slice()[0].left, Some(Left { reason: Reason::OwnerMismatch, message: None }));
}

#[test]
fn r38_the_file_of_a_live_process_is_not_removed_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let mut owner = Ledger::open(directory.path(), &header()).unwrap();
    owner.append(&intended(0)).unwrap();
    let set = CreatedSet::resume(&only_past(directory.path()), Events::nowhere());
    set.withdraw(&object(0));
    set.close_if_empty();
    owner.append(&intended(1)).unwrap();
    assert_eq!(only_past(directory.path()).entries.as_slice()[0].object, object(1));
}

#[test]
fn r31_an_absent_object_is_final_only_when_no_create_of_it_can_still_be_committed() {
    let now = Timestamp::now();
    let intended = |seconds: i64| Claim::Intended { at: now - jiff::SignedDuration::from_secs(seconds) };
    assert!(!intended(0).absence_is_final(now) && !intended(119).absence_is_final(now));
    assert!(intended(120).absence_is_final(now));
    assert!(!intended(-5).absence_is_final(now), "a clock that was set back proves nothing");
    assert!(Claim::Confirmed { uid: uid("j") }.absence_is_final(now));

    let set = CreatedSet::default();
    set.intend([&object(0), &object(1), &object(2)]);
    set.confirm(&object(2), uid("r"));
    set.settle(&settled(0, None, Fate::Gone));
    set.settle(&settled(1, Some("proven"), Fate::Deleted));
    set.settle(&settled(2, Some("r"), Fate::Gone));
    assert_eq!(set.entries().iter().map(|entry| &entry.object).collect::<Vec<_>>(), [&object(0)]);
}

#[test]
fn r32_what_was_proven_and_not_deleted_keeps_its_uid() {
    let set = CreatedSet::default();
    set.settle(&settled(0, Some("proven"), refused("no")));
    assert_eq!(set.uid_of(&object(0)), Some(uid("proven")));
    assert_eq!(set.entries()[0].left, Some(left("cannot delete it: no")));
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let any_object = || (0..NAMES).prop_map(object);
    let change = prop_oneof![
        proptest::collection::vec(any_object(), 1..4)
            .prop_map(|objects| Change::Intended { objects, at: Timestamp::UNIX_EPOCH }),
        (any_object(), "[a-f0-9]{1,8}")
            .prop_map(|(object, uid_text)| Change::Confirmed { object, uid: uid(&uid_text) }),
        any_object().prop_map(|object| Change::Withdrawn { object }),
        // The server's words may hold anything, line ends included.
        (any_object(), any::<String>()).prop_map(|(object, message)| Change::Left {
            object,
            left: left(&message),
            at: Timestamp::UNIX_EPOCH
        }),
    ];
    proptest::collection::vec(change, 0..20)
}

#[derive(Clone, Debug)]
enum Step {
    Intend(Vec<ObjectRef>),
    Confirm(ObjectRef, Uid),
    Withdraw(ObjectRef),
    Leave(ObjectRef, Option<Uid>),
    Gone(ObjectRef),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any_object = || (0..NAMES).prop_map(object);
    let any_uid = || "[a-f0-9]{1,8}".prop_map(|text| uid(&text));
    let step = prop_oneof![
        proptest::collection::vec(any_object(), 1..4).prop_map(Step::Intend),
        (any_object(), any_uid()).prop_map(|(object, uid)| Step::Confirm(object, uid)),
        any_object().prop_map(Step::Withdraw),
        (any_object(), proptest::option::of(any_uid())).prop_map(|(object, uid)| Step::Leave(object, uid)),
        any_object().prop_map(Step::Gone),
    ];
    proptest::collection::vec(step, 0..30)
}

fn after<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Entries {
    let mut entries = Entries::default();
    changes.into_iter().for_each(|change| entries.apply(change));
    entries
}

proptest! {
    // Each case syncs a file to disk.
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn r35_a_ledger_cut_off_anywhere_tells_a_past_that_was(changes in changes(), cut in any::<prop::sample::Index>()) {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(directory.path(), &header()).unwrap();
        let path = ledger.path().to_owned();
        let mut ends = vec![fs::metadata(&path).unwrap().len()];
        for change in &changes {
            ledger.append(change).unwrap();
            ends.push(fs::metadata(&path).unwrap().len());
        }
        drop(ledger);
        let length = cut.index(usize::try_from(*ends.last().unwrap()).unwrap() + 1) as u64;
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();

        let reading = read(directory.path());
        // Every change whose append had returned when the file had this length, and no other.
        match ends.iter().rposition(|&end| end <= length) {
            Some(whole) => {
                prop_assert_eq!(&reading.pasts[0].entries, &after(&changes[..whole]));
                prop_assert_eq!(reading.problems.is_empty(), ends.contains(&length));
            }
            None => prop_assert!(reading.pasts.is_empty() && reading.problems.len() == 1),
        }
    }

    #[test]
    fn r29_a_set_holds_exactly_what_was_recorded_and_not_taken_back(steps in steps()) {
        let set = CreatedSet::default();
        let mut expected = BTreeMap::<ObjectRef, (Option<Uid>, Option<Reason>)>::new();
        for step in steps {
            match step {
                Step::Intend(objects) => {
                    set.intend(&objects);
                    for object in objects {
                        expected.entry(object).or_default();
                    }
                }
                Step::Confirm(object, uid) => {
                    set.confirm(&object, uid.clone());
                    expected.entry(object).or_default().0 = Some(uid);
                }
                Step::Withdraw(object) => {
                    set.withdraw(&object);
                    expected.remove(&object);
                }
                Step::Leave(object, uid) => {
                    set.settle(&Removal { object: object.clone(), uid: uid.clone(), fate: Fate::StillTerminating });
                    let entry = expected.entry(object).or_default();
                    *entry = (uid.or(entry.0.clone()), Some(Reason::StillTerminating));
                }
                Step::Gone(object) => {
                    set.settle(&Removal { object: object.clone(), uid: None, fate: Fate::Gone });
                    // What was just intended may still be created.
                    if expected.get(&object).is_some_and(|(uid, _)| uid.is_some()) {
                        expected.remove(&object);
                    }
                }
            }
        }
        let entries = set.entries().into_iter().map(|entry| {
            let uid = set.uid_of(&entry.object);
            (entry.object, (uid, entry.left.map(|left| left.reason)))
        });
        prop_assert_eq!(set.entries().len(), expected.len());
        prop_assert_eq!(entries.collect::<BTreeMap<_, _>>(), expected);
    }

    #[test]
    fn r35_any_bytes_behind_a_header_are_read_without_a_fall(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(directory.path(), &header()).unwrap();
        File::options().append(true).open(ledger.path()).unwrap().write_all(&bytes).unwrap();
        drop(ledger);
        prop_assert_eq!(read(directory.path()).pasts.len(), 1);
    }
}
