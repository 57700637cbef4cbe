//! Scans by the clock: a drive in memory, and a clock that the test sets.

use std::time::Instant;

use headtime_io::{Drive, DriveOptions, Locator};
use jiff::civil::date;
use jiff::tz::TimeZone;

use super::*;

struct Clocked {
    scans: Scans,
    clock: Arc<Mutex<Zoned>>,
    drive: Drive,
    folder: tempfile::TempDir,
}

/// Central Europe: summer time from 2026-03-29 02:00 to 2026-10-25 03:00.
fn at(day: (i16, i8, i8), hour: i8, minute: i8) -> Zoned {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
    date(day.0, day.1, day.2).at(hour, minute, 0, 0).to_zoned(zone).expect("a time")
}

impl Clocked {
    fn new(now: Zoned) -> Self {
        let folder = tempfile::tempdir().expect("a directory for tests");
        let locator = Locator::parse("memory:2MiB").expect("a locator");
        let drive = Drive::open(&locator, DriveOptions::default()).expect("a drive in memory");
        let clock = Arc::new(Mutex::new(now));
        Self { scans: Self::scans(&drive, &folder, &clock, Vec::new()), clock, drive, folder }
    }

    fn scans(
        drive: &Drive,
        folder: &tempfile::TempDir,
        clock: &Arc<Mutex<Zoned>>,
        sections: Vec<StartScan>,
    ) -> Scans {
        let (clock, directory) = (Arc::clone(clock), Some(folder.path().to_owned()));
        let clock = Arc::new(move || clock.lock().clone());
        let targets = vec![("v".to_owned(), Extent::from_numbers(0, 2048).into())];
        Scans::open_at(drive.handle(), [7; 16], targets, directory, Share::NONE, sections, clock)
    }

    fn restarted(self) -> Self {
        self.restarted_with(Vec::new())
    }

    /// The same with scans in the configuration.
    fn restarted_with(self, sections: Vec<StartScan>) -> Self {
        let Self { scans, clock, drive, folder } = self;
        scans.close();
        Self { scans: Self::scans(&drive, &folder, &clock, sections), clock, drive, folder }
    }

    fn set(&self, now: Zoned) {
        *self.clock.lock() = now;
    }

    fn start(&self, task: TaskKind, during: &str, every: &str) -> Result<ScanStatus, ScanError> {
        let during = Some((!during.is_empty()).then(|| during.parse().expect(during)));
        let every = Some((!every.is_empty()).then(|| every.parse().expect(every)));
        let to = (task == TaskKind::Backup).then(|| self.folder.path().join("v-%F.img"));
        self.scans.start(&StartScan {
            target: "v".to_owned(),
            task,
            range: None,
            digests: false,
            to,
            again: false,
            terms: TermsChange { during, every, ..TermsChange::default() },
        })
    }

    fn until(&self, what: &str, fulfilled: impl Fn(&ScanStatus) -> bool) -> ScanStatus {
        let enough = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.scans.status().pop().expect("there is a scan");
            if fulfilled(&status) {
                return status;
            }
            assert!(Instant::now() < enough, "{what}: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until_pass(&self, pass: u32) -> ScanStatus {
        self.until("a pass", |now| now.state == ScanState::Complete && now.pass == pass)
    }
}

/// Returns whether the scan starts next at a time that begins so.
fn is_next(status: &ScanStatus, start: &str) -> bool {
    status.next_start.as_ref().is_some_and(|next| next.starts_with(start))
}

#[test]
fn a_scan_waits_outside_of_its_timetable_also_over_a_restart() {
    let clocked = Clocked::new(at((2026, 11, 27), 21, 59));
    clocked.start(TaskKind::Scrub, "Mon-Fri 22:00-06:00", "").expect("it starts");
    let waits = |now: &ScanStatus| now.state == ScanState::Waiting;
    let status = clocked.until("it waits", waits);
    assert_eq!(status.reason, "outside of its timetable until Fri 2026-11-27 22:00 CET");
    let resumed = clocked.scans.resume("v", TaskKind::Scrub).expect("there is a scan");
    assert_eq!((resumed.state, resumed.bytes_done), (ScanState::Waiting, 0), "not even by order");
    let clocked = clocked.restarted();
    assert_eq!(clocked.until("it waits", waits).bytes_done, 0);
    // A clock that was set back changes nothing, one that is set ahead opens the window.
    clocked.set(at((2026, 11, 20), 12, 0));
    clocked.until("its date", |now| now.reason.contains("until Fri 2026-11-20 22:00 CET"));
    clocked.set(at((2026, 11, 28), 5, 59));
    clocked.until_pass(1);
}

#[test]
fn a_timetable_is_removed_while_the_scan_waits() {
    let clocked = Clocked::new(at((2026, 11, 27), 12, 0));
    clocked.start(TaskKind::Digest, "22:00-06:00", "").expect("it starts");
    clocked.until("it waits", |now| now.state == ScanState::Waiting);
    let any_time = TermsChange { during: Some(None), ..TermsChange::default() };
    clocked.scans.set("v", TaskKind::Digest, &any_time).expect("there is a scan");
    clocked.until_pass(1);
}

#[test]
fn a_scan_repeats_when_it_is_due_and_a_window_is_open() {
    let clocked = Clocked::new(at((2026, 10, 24), 22, 0));
    clocked.start(TaskKind::Scrub, "22:00-06:00", "1d").expect("it starts");
    let status = clocked.until_pass(1);
    assert_eq!(status.next_start.as_deref(), Some("2026-10-25T22:00:00+01:00"), "in winter time");
    clocked.set(at((2026, 10, 25), 21, 59));
    let clocked = clocked.restarted();
    assert_eq!(clocked.until_pass(1).pass, 1);
    clocked.set(at((2026, 10, 26), 12, 0));
    let late = clocked.until("its date", |now| is_next(now, "2026-10-26T22"));
    assert_eq!(late.pass, 1, "it was due in a window that has passed");
    clocked.set(at((2026, 10, 26), 22, 0));
    clocked.until_pass(2);
    // A start that a wrong clock put into the future counts as now.
    clocked.set(at((2026, 10, 20), 23, 0));
    clocked.until("its date", |now| is_next(now, "2026-10-21T23:00:00+02:00"));
    clocked.set(at((2026, 10, 21), 23, 0));
    clocked.until_pass(3);
}

#[test]
fn a_backup_that_repeats_writes_a_file_each_time_and_begins_in_its_window() {
    let clocked = Clocked::new(at((2026, 11, 26), 12, 0));
    clocked.start(TaskKind::Backup, "Fri 22:00-06:00", "1w").expect("it starts");
    let waits = |now: &ScanStatus| now.state == ScanState::Waiting;
    assert!(clocked.until("it waits", waits).output.ends_with("v-2026-11-26.img"));
    let clocked = clocked.restarted();
    clocked.until("it waits", waits);
    clocked.set(at((2026, 11, 27), 22, 0));
    let first = clocked.until_pass(1);
    assert!(is_next(&first, "2026-12-04T22:00:00"), "{first:?}");
    assert!(first.output.ends_with("v-2026-11-27.img"), "{first:?}");
    clocked.set(at((2026, 12, 4), 22, 0));
    let second = clocked.until("the next", |now| {
        now.state == ScanState::Complete && now.output.ends_with("v-2026-12-04.img")
    });
    assert_eq!(second.bytes_done, 1 << 20);
    for image in [first.output, second.output] {
        assert_eq!(std::fs::metadata(image).expect("the image").len(), 1 << 20);
    }
    // The date of the next is that of an image that is there.
    clocked.set(at((2026, 12, 11), 22, 0));
    std::fs::write(clocked.folder.path().join("v-2026-12-18.img"), "").expect("it is ours");
    clocked.until("the third", |now| now.output.ends_with("v-2026-12-11.img"));
    clocked.until("its end", |now| now.state == ScanState::Complete);
    clocked.set(at((2026, 12, 18), 22, 0));
    let broken = clocked.until("a refusal", |now| now.state == ScanState::Broken);
    assert!(broken.reason.contains("the next pass cannot start"), "{broken:?}");
}

/// A section as the reader of the configuration makes it.
fn section(more: &str) -> Vec<StartScan> {
    let text = format!("[[scan]]\ntarget = \"v\"\ntask = \"scrub\"\n{more}");
    crate::config::Config::from_toml("a.toml", &text).expect("a good section").scans
}

#[test]
fn a_section_starts_its_scan_once_and_changes_it_when_it_changes() {
    let clocked = Clocked::new(at((2026, 11, 27), 12, 0));
    clocked.scans.follow(section("range = \"0..512KiB\""));
    let first = clocked.until_pass(1);
    assert!(first.configured && first.bytes_done == 512 << 10, "{first:?}");
    let clocked = clocked.restarted_with(section("range = \"0..512KiB\"\npriority = 1"));
    let again = clocked.until_pass(1);
    assert_eq!((again.priority, again.bytes_done), (1, 512 << 10));
    // A timetable that is not open shows that the scan does not start over, and then that it does.
    let later = "during = \"22:00-06:00\"";
    clocked.scans.follow(section(&format!("range = \"0..512KiB\"\n{later}")));
    let kept = clocked.until("its terms", |now| !now.during.is_empty() && now.priority == 4);
    assert_eq!(kept.state, ScanState::Complete);
    clocked.scans.follow(section(&format!("digests = true\n{later}")));
    let over = clocked.until("another scan", |now| now.bytes == 1 << 20);
    assert_eq!((over.state, over.bytes_done, over.configured), (ScanState::Waiting, 0, true));
    clocked.scans.follow(Vec::new());
    let released = clocked.until("no section", |now| !now.configured);
    assert_eq!(released.during, "22:00-06:00", "it keeps its windows");
    clocked.set(at((2026, 11, 27), 22, 0));
    clocked.until_pass(1);
}

#[test]
fn a_section_that_is_gone_repeats_its_scan_no_more() {
    let clocked = Clocked::new(at((2026, 11, 27), 12, 0));
    clocked.scans.follow(section("every = \"1d\""));
    assert!(clocked.until_pass(1).next_start.is_some());
    // Also if it is due when the server starts without the section.
    clocked.set(at((2026, 11, 30), 12, 0));
    let clocked = clocked.restarted();
    let status = clocked.until("no section", |now| !now.configured);
    assert_eq!((status.every.as_str(), status.next_start, status.pass), ("", None, 1));
}

#[test]
fn a_section_adopts_a_scan_of_the_same_sectors_and_leaves_another_alone() {
    let clocked = Clocked::new(at((2026, 11, 27), 12, 0));
    clocked.start(TaskKind::Scrub, "22:00-06:00", "").expect("it starts");
    clocked.scans.follow(section("range = \"0..512KiB\""));
    let by_hand = clocked.scans.status().pop().expect("there is a scan");
    assert_eq!((by_hand.configured, by_hand.bytes), (false, 1 << 20));
    let paused = clocked.scans.pause("v", TaskKind::Scrub).expect("there is a scan");
    assert_eq!(paused.state, ScanState::Paused);
    clocked.scans.follow(section(""));
    let adopted = clocked.scans.status().pop().expect("there is a scan");
    assert_eq!((adopted.configured, adopted.state), (true, ScanState::Paused), "by its user");
    assert_eq!(adopted.during, "");
}

#[test]
fn a_section_starts_when_its_volume_is_created() {
    let clocked = Clocked::new(at((2026, 11, 27), 12, 0));
    clocked.scans.set_target("v", None);
    clocked.scans.follow(section(""));
    assert!(clocked.scans.status().is_empty());
    clocked.scans.set_target("v", Some(Extent::from_numbers(1024, 1024).into()));
    assert_eq!(clocked.until_pass(1).bytes, 512 << 10);
}

#[test]
fn an_output_that_would_be_the_same_each_time_is_refused() {
    let clocked = Clocked::new(at((2026, 11, 27), 12, 0));
    let backup = |to: &str, every: Option<&str>| StartScan {
        target: "v".to_owned(),
        task: TaskKind::Backup,
        range: None,
        digests: false,
        to: Some(clocked.folder.path().join(to)),
        again: true,
        terms: TermsChange {
            every: Some(every.map(|every| every.parse().expect(every))),
            ..TermsChange::default()
        },
    };
    let error = clocked.scans.start(&backup("v.img", Some("1w"))).expect_err("it is refused");
    assert!(error.to_string().contains("vol0-%Y-%m-%d.img"), "{error}");
    clocked.scans.start(&backup("100%F.img", None)).expect("a single pass has no pattern");
    assert!(clocked.folder.path().join("100%F.img").exists());
    let weekly =
        TermsChange { every: Some(Some("1w".parse().expect("a time"))), ..TermsChange::default() };
    let error = clocked.scans.set("v", TaskKind::Backup, &weekly).expect_err("it is refused");
    assert!(error.to_string().contains("a date in --to"), "{error}");
}
