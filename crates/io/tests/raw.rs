//! Raw block devices, tested on loop devices: refusals and their messages, kernel settings changed
//! and restored, and the removal of a device.
//!
//! For root only, with loop devices; skipped with a message elsewhere. Real disks differ in what
//! loop devices do not have: a queue depth and a write cache of their own.

mod common;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytes::Bytes;
use headtime_io::{
    BlockDevice, Drive, DriveOptions, Io, KernelKnobs, KnobOutcome, Locator, RawOptions,
    SystemPaths, WriteCache, block_device_at, plan_knobs, restore_knobs,
};
use headtime_sched::Op;
use headtime_testkit::loop_device::LoopDevice;
use headtime_testkit::programs::{run, try_run};
use headtime_units::Extent;
use tempfile::TempDir;

use common::{answer, pattern_of, submit, when_let_go};

const MIB: u64 = 1 << 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("plain paths")
}

/// A loop device of 64 MiB and a directory for whatever else there is.
struct Bench {
    device: LoopDevice,
    directory: TempDir,
}

impl Bench {
    fn new(sector_bytes: usize) -> Option<Self> {
        Self::with(&["--sector-size", &sector_bytes.to_string()])
    }

    fn with(options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a place for files");
        let file = directory.path().join("disk.img");
        File::create(&file).and_then(|file| file.set_len(64 * MIB)).expect("sparse");
        let device = LoopDevice::attached(&file, options)?;
        Some(Self { device, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn system(&self) -> SystemPaths {
        SystemPaths { state: self.path("state"), ..SystemPaths::default() }
    }

    fn options(&self) -> DriveOptions {
        DriveOptions {
            raw: RawOptions { system: self.system(), ..RawOptions::default() },
            ..DriveOptions::default()
        }
    }

    fn open(&self) -> Drive {
        self.open_with(self.options())
    }

    fn open_with(&self, options: DriveOptions) -> Drive {
        self.open_path(self.device.path(), options)
    }

    fn open_path(&self, path: &Path, options: DriveOptions) -> Drive {
        let locator = Locator::Path(path.to_owned());
        when_let_go(|| Drive::open(&locator, options.clone()))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The error of opening `path`.
    fn refusal(&self, path: &Path) -> String {
        Drive::open(&Locator::Path(path.to_owned()), self.options())
            .err()
            .expect("it cannot be a drive")
            .to_string()
    }

    /// Writes a partition table with two partitions of 24 MiB and shows them to the kernel; their
    /// nodes.
    fn partitioned(&self) -> [PathBuf; 2] {
        let mut sector = [0; 512];
        for (index, first) in [2048_u32, 51_200].into_iter().enumerate() {
            let entry = &mut sector[446 + 16 * index..][..16];
            entry[4] = 0x83;
            entry[8..12].copy_from_slice(&first.to_le_bytes());
            entry[12..16].copy_from_slice(&49_152_u32.to_le_bytes());
        }
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        let disk = OpenOptions::new().write(true).open(self.device.path()).expect("root may");
        disk.write_all_at(&sector, 0).and_then(|()| disk.sync_all()).expect("writable");
        drop(disk);
        run("partx", &["-a", text(self.device.path())]);
        [1, 2].map(|number| PathBuf::from(format!("{}p{number}", self.device.path().display())))
    }
}

/// A mounted file system, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Path, at: PathBuf) -> Self {
        std::fs::create_dir(&at).expect("the place can be written");
        run("mkfs.ext4", &["-q", text(device)]);
        run("mount", &[text(device), text(&at)]);
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = try_run("umount", &[text(&self.0)]);
    }
}

#[test]
fn a_mounted_device_is_refused_with_the_mount_point() {
    let Some(bench) = Bench::new(512) else { return };
    let mounted = Mounted::new(bench.device.path(), bench.path("mount point"));
    let said = bench.refusal(bench.device.path());
    assert!(
        said.contains("cannot be a drive: it is in use")
            && said.contains("mount point")
            && said.contains("umount"),
        "{said}"
    );
    drop(mounted);
    drop(bench.open());
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused_and_its_other_partition_is_not() {
    let Some(bench) = Bench::new(512) else { return };
    let [first, second] = bench.partitioned();
    let mounted = Mounted::new(&first, bench.path("mnt"));
    for path in [bench.device.path(), &first] {
        let said = bench.refusal(path);
        assert!(said.contains("p1 is mounted on") && said.contains("/mnt"), "{said}");
    }
    let drive = bench.open_path(&second, bench.options());
    assert_eq!(drive.sector_size().bytes_of(drive.capacity()), 24 * MIB);
    let whole = Extent::from_numbers(0, 8);
    assert!(drive.handle().run(Io::write(whole, pattern_of(512, whole, 1))).result.is_ok());
    drop(mounted);
    let said = bench.refusal(bench.device.path());
    assert!(said.contains("p2 is open for writing by"), "{said}");
    drop(drive);
    let mut bytes = vec![0; 4096];
    File::open(bench.device.path())
        .and_then(|disk| disk.read_exact_at(&mut bytes, 51_200 * 512))
        .expect("readable");
    assert!(
        bytes == pattern_of(512, whole, 1),
        "the partition's sectors are counted from its own start"
    );
}

#[test]
fn swap_space_is_refused_as_such() {
    let Some(bench) = Bench::new(512) else { return };
    run("mkswap", &["-q", text(bench.device.path())]);
    let on = try_run("swapon", &[text(bench.device.path())]);
    if !on.status.success() {
        eprintln!(
            "skipped: no swap is allowed here ({})",
            String::from_utf8_lossy(&on.stderr).trim()
        );
        return;
    }
    let device = block_device_at(bench.device.path(), &bench.system());
    let said = Drive::open(&Locator::Path(bench.device.path().to_owned()), bench.options())
        .err()
        .map(|error| error.to_string());
    run("swapoff", &[text(bench.device.path())]);
    assert!(
        said.as_ref().is_some_and(
            |said| said.contains("is swap space") && said.contains("swapoff /dev/loop")
        ),
        "{said:?} {device:?}"
    );
}

#[test]
fn what_another_program_may_write_is_refused_with_its_name() {
    let Some(bench) = Bench::new(512) else { return };
    let writer =
        OpenOptions::new().read(true).write(true).open(bench.device.path()).expect("root may");
    let said = bench.refusal(bench.device.path());
    assert!(
        said.contains("open for writing by")
            && said.contains(&format!("process {}", std::process::id())),
        "{said}"
    );
    drop(writer);
    let _reader = File::open(bench.device.path()).expect("root may");
    drop(bench.open());
}

#[test]
fn a_claim_that_nobody_can_be_named_for_is_refused_too() {
    let Some(bench) = Bench::new(512) else { return };
    let claim = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC;
    let claimed = rustix::fs::open(bench.device.path(), claim, rustix::fs::Mode::empty())
        .expect("nobody has it");
    let said = bench.refusal(bench.device.path());
    assert!(said.contains("its user is not visible") && said.contains("fuser -v"), "{said}");
    drop(claimed);
    drop(bench.open());
}

#[test]
fn while_it_is_a_drive_nothing_else_can_be_made_of_it() {
    let Some(bench) = Bench::new(512) else { return };
    run("mkfs.ext4", &["-q", text(bench.device.path())]);
    let drive = bench.open();
    let at = bench.path("mnt");
    std::fs::create_dir(&at).expect("the place can be written");
    let mount = try_run("mount", &[text(bench.device.path()), text(&at)]);
    if mount.status.success() {
        let _ = try_run("umount", &[text(&at)]);
        panic!("a drive in use was mounted");
    }
    drop(drive);
}

#[test]
fn a_read_only_device_is_refused() {
    let Some(bench) = Bench::with(&["--read-only"]) else { return };
    let said = bench.refusal(bench.device.path());
    assert!(said.contains("it is read-only") && said.contains("blockdev --setrw"), "{said}");
}

#[test]
fn an_emulated_drive_does_not_keep_its_bytes_on_a_device() {
    let Some(bench) = Bench::new(512) else { return };
    let locator =
        Locator::parse(&format!("emulated:atlas10k?backing={}", bench.device.path().display()))
            .expect("a locator");
    let said = Drive::open(&locator, bench.options()).err().expect("no file").to_string();
    assert!(
        said.contains("stores its data in a file") && said.contains("serve the device itself"),
        "{said}"
    );
}

#[test]
fn a_name_that_stays_leads_to_the_device() {
    let Some(bench) = Bench::new(4096) else { return };
    let by_id = bench.path("ata-DISK_SERIAL");
    symlink(bench.device.path(), &by_id).expect("the place can be written");
    let drive = bench.open_path(&by_id, bench.options());
    let handle = drive.handle();
    assert_eq!((handle.sector_size().bytes(), handle.physical_block()), (4096, 4096));
    assert_eq!(handle.sector_size().bytes_of(handle.capacity()), 64 * MIB);
    let device =
        block_device_at(&by_id, &bench.system()).expect("sysfs is there").expect("a device");
    assert_eq!(
        (device.name.as_str(), device.logical_sector, device.bytes),
        (bench.device.name(), 4096, 64 * MIB)
    );
    let listed = BlockDevice::list(&bench.system()).expect("sysfs is there");
    assert!(
        listed.iter().any(|other| other.name == device.name && !other.refusals().is_empty()),
        "the list says that it is in use"
    );
    // A link that is removed takes nothing with it.
    std::fs::remove_file(&by_id).expect("it is there");
    assert!(handle.run(Io::flush()).result.is_ok());
    assert!(drive.shutdown().is_clean());
}

/// Direct I/O wants buffers on certain addresses; what applications hand in lies anywhere.
#[test]
fn bytes_that_lie_anywhere_in_memory_are_written_as_they_are() {
    for sector_bytes in [512, 4096] {
        let Some(bench) = Bench::new(sector_bytes) else { return };
        let drive = bench.open();
        let extent = Extent::from_numbers(5, 7);
        let content = pattern_of(sector_bytes, extent, 9);
        for shift in [1, 7, 511, 513] {
            let shifted =
                Bytes::from([vec![0xEE; shift], content.to_vec(), vec![0xEE; 3]].concat())
                    .slice(shift..shift + content.len());
            assert_eq!(
                drive.handle().run(Io::write(extent, shifted)).result,
                Ok(Bytes::new()),
                "{sector_bytes} shifted by {shift}"
            );
            assert!(
                drive.handle().run(Io::read(extent)).result.expect("readable") == content,
                "{sector_bytes} shifted by {shift}"
            );
            let zero = drive.handle().run(Io::new(Op::Zero, extent)).result;
            assert_eq!(zero, Ok(Bytes::new()));
        }
        assert!(
            drive.snapshot().backend.contains("direct, raw device"),
            "{}",
            drive.snapshot().backend
        );
    }
}

#[test]
fn discarded_sectors_are_given_back_to_what_lies_below() {
    let Some(bench) = Bench::new(4096) else { return };
    let drive = bench.open();
    let used = || std::fs::metadata(bench.path("disk.img")).expect("it is there").blocks() * 512;
    let extent = Extent::from_numbers(1024, 2048);
    assert!(
        drive
            .handle()
            .run(Io { fua: true, ..Io::write(extent, pattern_of(4096, extent, 1)) })
            .result
            .is_ok()
    );
    assert!(drive.handle().run(Io::flush()).result.is_ok());
    let before = used();
    assert!(before >= 8 * MIB, "{before}");
    for fua in [false, true] {
        assert_eq!(
            drive.handle().run(Io { fua, ..Io::new(Op::Discard, extent) }).result,
            Ok(Bytes::new())
        );
    }
    assert!(used() <= before - 7 * MIB, "{before} before, {} after", used());
}

/// The knobs of a loop device that the kernel lets be changed.
fn knobs(device: &LoopDevice) -> [String; 3] {
    ["scheduler", "nomerges", "nr_requests"].map(|file| device.queue(file))
}

/// Gives the device other settings than a fresh one has; the settings. `None` where the kernel has
/// no other scheduler.
fn unusual_knobs(device: &LoopDevice) -> Option<[String; 3]> {
    if !device.queue("scheduler").contains("mq-deadline") {
        eprintln!("skipped: this kernel has no scheduler mq-deadline");
        return None;
    }
    for (file, value) in
        [("scheduler", "mq-deadline"), ("nr_requests", "77"), ("iosched/fifo_batch", "9")]
    {
        std::fs::write(device.queue_path(file), value).expect("root may");
    }
    let knobs = knobs(device);
    assert!(knobs[0].contains("[mq-deadline]") && knobs[2] == "77", "{knobs:?}");
    Some(knobs)
}

#[test]
fn kernel_settings_are_changed_while_it_is_open_and_are_as_before_afterwards() {
    let Some(bench) = Bench::new(512) else { return };
    let Some(before) = unusual_knobs(&bench.device) else { return };
    let mut options = bench.options();
    options.raw.queue_depth = Some(5);
    let drive = bench.open_with(options.clone());
    let [scheduler, nomerges, depth] = knobs(&bench.device);
    assert!(
        scheduler.contains("[none]") && (nomerges.as_str(), depth.as_str()) == ("2", "5"),
        "{scheduler} {nomerges} {depth}"
    );
    assert!(drive.shutdown().is_clean());
    assert_eq!(
        (knobs(&bench.device), bench.device.queue("iosched/fifo_batch")),
        (before.clone(), "9".to_owned())
    );

    // What was as requested is so still when the kernel has reset it with the scheduler.
    options.raw.queue_depth = Some(77);
    let drive = bench.open_with(options.clone());
    assert_eq!(knobs(&bench.device)[2], "77");
    drop(drive);
    assert_eq!(knobs(&bench.device), before);

    options.raw.kernel_knobs = KernelKnobs::Keep;
    let drive = bench.open_with(options);
    assert_eq!(knobs(&bench.device), before);
    drop(drive);
}

#[test]
fn what_a_loop_device_does_not_have_is_planned_as_without_effect() {
    let Some(bench) = Bench::new(512) else { return };
    let device = block_device_at(bench.device.path(), &bench.system())
        .expect("sysfs is there")
        .expect("a device");
    let options = RawOptions {
        write_cache: WriteCache::Off,
        system: bench.system(),
        ..RawOptions::default()
    };
    let reports = plan_knobs(&device, &options);
    let cache =
        reports.iter().find(|report| report.name == "write_cache").expect("the knob was requested");
    assert!(
        matches!(cache.outcome, KnobOutcome::NoEffect { .. })
            && cache.to_string().contains("has no effect here"),
        "{cache}"
    );
    // The kernel's assumption about the cache is never changed: it would drop flushes.
    let model = bench.device.queue("write_cache");
    let drive = bench.open_with(DriveOptions { raw: options, ..bench.options() });
    assert_eq!(bench.device.queue("write_cache"), model);
    drop(drive);
}

const CHILD: &str = "HEADTIME_RAW_CHILD";

#[test]
fn kernel_settings_are_put_back_after_kill_9() {
    if let Some(device) = std::env::var_os(CHILD).map(PathBuf::from) {
        let state = std::env::var_os("HEADTIME_RAW_STATE").expect("set with it");
        let system = SystemPaths { state: state.into(), ..SystemPaths::default() };
        let raw = RawOptions { system, queue_depth: Some(6), ..RawOptions::default() };
        let drive =
            Drive::open(&Locator::Path(device), DriveOptions { raw, ..DriveOptions::default() })
                .unwrap_or_else(|error| panic!("{error}"));
        println!("open");
        // Until it is killed.
        loop {
            std::thread::park();
            drop(drive.snapshot());
        }
    }
    for by_restore in [true, false] {
        let Some(bench) = Bench::new(512) else { return };
        let Some(before) = unusual_knobs(&bench.device) else { return };
        let mut child = Command::new(std::env::current_exe().expect("this program is somewhere"))
            .args(["kernel_settings_are_put_back_after_kill_9", "--exact", "--nocapture"])
            .env(CHILD, bench.device.path())
            .env("HEADTIME_RAW_STATE", bench.path("state"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let opened = lines.map_while(Result::ok).any(|line| line.ends_with("open"));
        // While it lives its settings are its own.
        let untouched = restore_knobs(&bench.system());
        let set = knobs(&bench.device);
        child.kill().expect("it is our child");
        child.wait().expect("it was not waited for");
        assert!(opened && untouched.0.is_empty() && untouched.1.is_empty(), "{untouched:?}");
        assert!(set[0].contains("[none]") && set[2] == "6", "{set:?}");
        assert_eq!(knobs(&bench.device), set, "a killed program puts nothing back");
        if by_restore {
            let (restored, errors) = restore_knobs(&bench.system());
            assert!(
                errors.is_empty()
                    && restored.iter().all(|knob| knob.left.is_none())
                    && restored.len() >= 3,
                "{restored:?} {errors:?}"
            );
        } else {
            assert!(bench.open().shutdown().is_clean());
        }
        assert_eq!(
            (knobs(&bench.device), bench.device.queue("iosched/fifo_batch")),
            (before, "9".to_owned()),
            "by restore: {by_restore}"
        );
    }
}

#[test]
fn a_device_that_shrinks_fails_exactly_what_is_past_its_end_and_says_so() {
    for sector_bytes in [512, 4096] {
        let Some(bench) = Bench::new(sector_bytes) else { return };
        let drive = bench.open();
        let sectors = |bytes: u64| bytes / sector_bytes as u64;
        let (stays, goes) =
            (Extent::from_numbers(8, 8), Extent::from_numbers(sectors(32 * MIB), 8));
        for extent in [stays, goes] {
            assert!(
                drive
                    .handle()
                    .run(Io::write(extent, pattern_of(sector_bytes, extent, 1)))
                    .result
                    .is_ok()
            );
        }
        OpenOptions::new()
            .write(true)
            .open(bench.path("disk.img"))
            .and_then(|file| file.set_len(16 * MIB))
            .expect("it can be cut");
        run("losetup", &["-c", text(bench.device.path())]);
        let read = submit(&drive, Io::read(goes));
        let write = submit(&drive, Io::write(goes, pattern_of(sector_bytes, goes, 2)));
        let fine = submit(&drive, Io::read(stays));
        for (failed, what) in [(read, "read"), (write, "write")] {
            let error = answer(&failed).result.expect_err("these sectors are gone");
            let said = error.to_string();
            assert_eq!(error.errno(), rustix::io::Errno::NODEV.raw_os_error(), "{said}");
            assert!(
                said.starts_with(what)
                    && said.contains("/dev/loop")
                    && said.contains("16777216 bytes now"),
                "{said}"
            );
        }
        assert!(answer(&fine).result.expect("still there") == pattern_of(sector_bytes, stays, 1));
        assert_eq!(drive.snapshot().errors.failed(), 2);
    }
}

#[test]
fn a_device_detached_while_in_use_serves_until_it_is_let_go() {
    let Some(bench) = Bench::new(512) else { return };
    let drive = bench.open();
    let extent = Extent::from_numbers(0, 8);
    run("losetup", &["-d", text(bench.device.path())]);
    assert!(drive.handle().run(Io::write(extent, pattern_of(512, extent, 1))).result.is_ok());
    assert!(drive.handle().run(Io::flush()).result.is_ok());
    assert!(drive.shutdown().is_clean());
    let mut bytes = vec![0; 4096];
    File::open(bench.path("disk.img"))
        .and_then(|file| file.read_exact_at(&mut bytes, 0))
        .expect("readable");
    assert!(bytes == pattern_of(512, extent, 1));
    // Its number may be that of another test's device by now, which must not be detached.
    std::mem::forget(bench.device);
}
