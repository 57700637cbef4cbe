use super::*;
use crate::block_device::tests::{Tree, disk};

fn options(tree: &Tree) -> RawOptions {
    RawOptions {
        queue_depth: Some(8),
        write_cache: WriteCache::Off,
        system: tree.system.clone(),
        ..RawOptions::default()
    }
}

/// The knobs of `sdb` as they are now, in the table's order.
fn shown(tree: &Tree) -> [String; 4] {
    [
        "queue/scheduler",
        "queue/nomerges",
        "device/queue_depth",
        "device/scsi_disk/0:0:0:0/cache_type",
    ]
    .map(|file| tree.read(file))
}

const BEFORE: [&str; 4] = ["none [mq-deadline] bfq", "0", "32", "write back"];
const SET: [&str; 4] = ["none", "2", "8", "write through"];
/// A tree of plain files keeps what is written and knows no brackets.
const AFTER: [&str; 4] = ["mq-deadline", "0", "32", "write back"];

#[test]
fn knobs_are_set_while_the_guard_lives_and_put_back_when_it_goes() {
    let tree = Tree::with_sdb();
    let device = disk(&tree);
    let (guard, reports) = KnobGuard::set(&device, &options(&tree));
    assert!(reports.iter().all(KnobReport::has_effect), "{reports:?}");
    assert_eq!((shown(&tree), reports.len()), (SET.map(str::to_owned), KERNEL_KNOBS.len()));
    assert_eq!(reports[0].to_string(), "scheduler = none instead of mq-deadline");
    drop(guard);
    assert_eq!(shown(&tree), AFTER.map(str::to_owned));
    assert_eq!(KnobState::disks(&tree.system), [""; 0], "nothing is remembered any more");
}

#[test]
fn only_what_is_asked_for_is_touched() {
    let tree = Tree::with_sdb();
    let (guard, reports) = KnobGuard::set(
        &disk(&tree),
        &RawOptions { system: tree.system.clone(), ..RawOptions::default() },
    );
    assert_eq!(
        reports.iter().map(|report| report.name).collect::<Vec<_>>(),
        ["scheduler", "merging"]
    );
    assert_eq!(shown(&tree)[2..], BEFORE[2..]);
    drop(guard);
    let keep = RawOptions { kernel_knobs: KernelKnobs::Keep, ..options(&tree) };
    let (guard, reports) = KnobGuard::set(&disk(&tree), &keep);
    assert!(
        guard.is_none()
            && reports.iter().all(|report| matches!(
                report.outcome,
                KnobOutcome::LeftAlone { explicit: true, .. }
            )),
        "{reports:?}"
    );
}

#[test]
fn a_crashed_run_is_cleaned_up_by_the_next_start_and_by_restore() {
    for by_restore in [false, true] {
        let tree = Tree::with_sdb();
        let (guard, _) = KnobGuard::set(&disk(&tree), &options(&tree));
        forget_like_a_crash(guard);
        assert_eq!(shown(&tree), SET.map(str::to_owned));
        if by_restore {
            let (restored, errors) = restore_knobs(&tree.system);
            assert!(
                errors.is_empty() && restored.iter().all(|knob| knob.left.is_none()),
                "{restored:?} {errors:?}"
            );
        } else {
            let keep = RawOptions { kernel_knobs: KernelKnobs::Keep, ..options(&tree) };
            assert!(KnobGuard::set(&disk(&tree), &keep).0.is_none());
        }
        assert_eq!(shown(&tree), AFTER.map(str::to_owned), "by restore: {by_restore}");
        assert_eq!(KnobState::disks(&tree.system), [""; 0]);
    }
}

/// A run that takes over from a crashed one must remember what was before the crashed one, not what
/// that one set.
#[test]
fn two_crashes_in_a_row_do_not_lose_the_first_values() {
    let tree = Tree::with_sdb();
    for _ in 0..2 {
        let (guard, _) = KnobGuard::set(&disk(&tree), &options(&tree));
        forget_like_a_crash(guard);
    }
    restore_knobs(&tree.system);
    assert_eq!(shown(&tree), AFTER.map(str::to_owned));
}

/// At every point at which a run can die, the next restore brings back what was there.
#[test]
fn a_crash_between_any_two_writes_is_put_back() {
    for written in 0..=SET.len() {
        let tree = Tree::with_sdb();
        let device = disk(&tree);
        let options = options(&tree);
        let mut entries = Vec::new();
        for report in plan_knobs(&device, &options) {
            let file = report
                .file
                .expect("the tree has all")
                .strip_prefix(&tree.system.sys)
                .expect("below")
                .to_owned();
            let KnobOutcome::Change { from } = report.outcome else { panic!("all of them change") };
            entries.push(Entry {
                name: report.name.to_owned(),
                file,
                before: from,
                change: Change::Unknown,
            });
        }
        KnobState::take(&tree.system, "sdb").expect("free").remember(&entries).expect("writable");
        for (entry, set) in entries.iter().zip(SET).take(written) {
            std::fs::write(tree.system.sys.join(&entry.file), set).expect("writable");
        }
        restore_knobs(&tree.system);
        // What was not written still has its brackets.
        let now: Vec<String> = shown(&tree).iter().map(|text| chosen(text).to_owned()).collect();
        assert_eq!(now, AFTER, "{written} written");
    }
}

#[test]
fn what_somebody_else_changed_meanwhile_stays() {
    let tree = Tree::with_sdb();
    let (guard, _) = KnobGuard::set(&disk(&tree), &options(&tree));
    tree.write("device/queue_depth", "16");
    forget_like_a_crash(guard);
    let (restored, _) = restore_knobs(&tree.system);
    let depth = restored
        .iter()
        .find(|knob| knob.name == "queue_depth")
        .expect("it was remembered")
        .to_string();
    assert!(
        depth.contains("stays at 16")
            && depth.contains("another program")
            && depth.contains("put back to 32"),
        "{depth}"
    );
    assert_eq!(shown(&tree), ["mq-deadline", "0", "16", "write back"].map(str::to_owned));
}

#[test]
fn the_schedulers_own_settings_come_back_with_it_and_only_with_it() {
    for changed_by_another in [false, true] {
        let tree = Tree::with_sdb();
        tree.write("queue/nr_requests", "333");
        tree.write("queue/iosched/read_expire", "77");
        let (guard, _) = KnobGuard::set(&disk(&tree), &options(&tree));
        // What the kernel does when the scheduler changes.
        tree.write("queue/nr_requests", "32");
        tree.write("queue/iosched/read_expire", "500");
        if changed_by_another {
            tree.write("queue/scheduler", "bfq");
        }
        drop(guard);
        let expected =
            if changed_by_another { ["bfq", "32", "500"] } else { ["mq-deadline", "333", "77"] };
        assert_eq!(
            ["queue/scheduler", "queue/nr_requests", "queue/iosched/read_expire"]
                .map(|file| tree.read(file)),
            expected.map(str::to_owned)
        );
    }
}

#[test]
fn a_knob_without_effect_says_why_and_what_follows() {
    let tree = Tree::with_sdb();
    tree.remove("device/queue_depth");
    tree.remove("device/scsi_disk/0:0:0:0/cache_type");
    // A file of the kernel that not even root may write.
    tree.remove("queue/nomerges");
    std::os::unix::fs::symlink("/proc/sys/kernel/ostype", tree.disk_path("queue/nomerges"))
        .expect("the tree is ours");
    let (guard, reports) = KnobGuard::set(&disk(&tree), &options(&tree));
    let said: Vec<String> =
        reports.iter().filter(|report| !report.has_effect()).map(ToString::to_string).collect();
    let [merging, cache] = &said[..] else { panic!("{said:?}") };
    assert!(
        merging.contains("merging = 2 has no effect")
            && merging.contains("refuses to write")
            && merging.contains("blurs"),
        "{merging}"
    );
    assert!(
        cache.contains("no device/scsi_disk/*/cache_type or cache_type")
            && cache.contains("stays as it is"),
        "{cache}"
    );
    // The kernel's queue stands in for the drive's.
    assert_eq!(tree.read("queue/nr_requests"), "8");
    drop(guard);
    assert_eq!(tree.read("queue/nr_requests"), "256");
}

#[test]
fn what_could_not_be_put_back_after_a_crash_is_not_changed() {
    let tree = Tree::with_sdb();
    std::fs::write(&tree.system.state, "a file where the directory should be")
        .expect("the tree is ours");
    let (guard, reports) = KnobGuard::set(&disk(&tree), &options(&tree));
    assert!(guard.is_none() && reports.iter().all(|report| !report.has_effect()), "{reports:?}");
    assert!(
        reports[0].to_string().contains("could not be put back after a crash"),
        "{}",
        reports[0]
    );
    assert_eq!(shown(&tree), BEFORE.map(str::to_owned));
}

#[test]
fn two_drives_on_one_disk_share_its_knobs_and_the_first_holds_them() {
    let tree = Tree::with_sdb();
    let device = disk(&tree);
    let (first, _) = KnobGuard::set(&device, &options(&tree));
    let (second, reports) =
        KnobGuard::set(&device, &RawOptions { queue_depth: Some(4), ..options(&tree) });
    assert!(second.is_none());
    let depth = reports
        .iter()
        .find(|report| report.name == "queue_depth")
        .expect("the knob was requested")
        .to_string();
    assert!(depth.contains("is not set") && depth.contains("another headtime"), "{depth}");
    drop(first);
    assert_eq!(shown(&tree), AFTER.map(str::to_owned));
}

#[test]
fn the_page_about_raw_devices_has_every_knob_with_its_files() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/raw-devices.md"));
    for knob in KERNEL_KNOBS {
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", knob.name)))
            .unwrap_or_else(|| panic!("{} has no line", knob.name));
        assert!(knob.files.iter().all(|file| line.contains(&format!("`{file}`"))), "{line}");
    }
}

#[test]
fn a_damaged_record_is_reported_and_not_used() {
    let tree = Tree::with_sdb();
    std::fs::create_dir_all(&tree.system.state).expect("the tree is ours");
    std::fs::write(tree.system.state.join("sdb.knobs"), "headtime-knobs 1\ndisk sdb\n")
        .expect("the tree is ours");
    let (restored, errors) = restore_knobs(&tree.system);
    let message = errors.first().expect("it is damaged").to_string();
    assert!(
        restored.is_empty()
            && message.contains("sdb.knobs is damaged")
            && message.contains("delete the file"),
        "{message}"
    );
}

/// Simulates a kill: the file remains, without its lock.
fn forget_like_a_crash(guard: Option<KnobGuard>) {
    let mut guard = guard.expect("something was changed");
    // Nothing to put back when it goes; the file is written again as it was.
    let entries = std::mem::take(&mut guard.entries);
    let path = guard.state.path().to_owned();
    guard.state.remember(&entries).expect("writable");
    let text = std::fs::read(&path).expect("it was written");
    drop(guard);
    std::fs::write(path, text).expect("writable");
}
