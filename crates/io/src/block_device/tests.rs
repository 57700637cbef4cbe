//! A tree as the kernel shows it, made of plain files; the layout is that of Linux 6.1 with a SATA
//! disk.

use std::os::unix::fs::symlink;

use super::*;

/// A machine with one disk `sdb` (8:16), not partitioned, and nothing that uses it.
pub(crate) struct Tree {
    root: tempfile::TempDir,
    pub(crate) system: SystemPaths,
}

const DISK: &str = "devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sdb";

impl Tree {
    pub(crate) fn with_sdb() -> Self {
        let root = tempfile::tempdir().expect("a place for files");
        let system = SystemPaths::under(root.path());
        let tree = Self { root, system };
        for (file, text) in [
            ("dev", "8:16\n"),
            ("size", "15628053168\n"),
            ("ro", "0\n"),
            ("alignment_offset", "0\n"),
            ("diskseq", "9\n"),
            ("queue/scheduler", "none [mq-deadline] bfq\n"),
            ("queue/nomerges", "0\n"),
            ("queue/nr_requests", "256\n"),
            ("queue/iosched/read_expire", "500\n"),
            ("queue/rotational", "1\n"),
            ("queue/zoned", "none\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/fua", "0\n"),
            ("queue/discard_max_bytes", "0\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "4096\n"),
            ("device/model", "ST8000NM000A    \n"),
            ("device/queue_depth", "32\n"),
            ("device/vpd_pg80", "\0\u{1}\0\u{8}WSD0ABCD"),
            ("device/scsi_disk/0:0:0:0/cache_type", "write back\n"),
        ] {
            tree.write(file, text);
        }
        tree.add("sdb", "8:16", DISK);
        std::fs::create_dir_all(tree.system.dev.join("disk/by-id")).expect("the tree is ours");
        for link in ["wwn-0x5000c500c0ffee00", "ata-ST8000NM000A_WSD0ABCD"] {
            symlink("../../sdb", tree.system.dev.join("disk/by-id").join(link))
                .expect("the tree is ours");
        }
        std::fs::create_dir_all(tree.system.proc.join("self")).expect("the tree is ours");
        tree
    }

    /// A partition of it.
    fn partition(&self, name: &str, dev: &str) {
        for (file, text) in [
            ("dev", dev),
            ("partition", "1"),
            ("size", "2048"),
            ("alignment_offset", "0"),
            ("ro", "0"),
        ] {
            self.write(&format!("{name}/{file}"), text);
        }
        self.add(name, dev, &format!("{DISK}/{name}"));
    }

    /// Makes the kernel's links to a directory, and a node.
    fn add(&self, name: &str, dev: &str, directory: &str) {
        for (kind, link) in [("class/block", name), ("dev/block", dev)] {
            std::fs::create_dir_all(self.system.sys.join(kind)).expect("the tree is ours");
            symlink(Path::new("../..").join(directory), self.system.sys.join(kind).join(link))
                .expect("the tree is ours");
        }
        std::fs::create_dir_all(&self.system.dev).expect("the tree is ours");
        std::fs::write(self.system.dev.join(name), "").expect("the tree is ours");
    }

    pub(crate) fn disk_path(&self, file: &str) -> PathBuf {
        self.system.sys.join(DISK).join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        self.put(self.disk_path(file), text);
    }

    pub(crate) fn read(&self, file: &str) -> String {
        word(&self.disk_path(file)).expect("it is there")
    }

    pub(crate) fn remove(&self, file: &str) {
        std::fs::remove_file(self.disk_path(file)).expect("it is there");
    }

    fn put(&self, path: PathBuf, text: &str) {
        assert!(path.starts_with(self.root.path()));
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the tree is ours");
        std::fs::write(path, text).expect("the tree is ours");
    }
}

pub(crate) fn disk(tree: &Tree) -> BlockDevice {
    BlockDevice::with_number(&tree.system, DeviceNumber { major: 8, minor: 16 })
        .expect("the tree has it")
}

/// Returns the refusals of the disk.
fn refusals(tree: &Tree) -> String {
    disk(tree).refusals().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn rejects(device: &BlockDevice) -> String {
    device.rejects().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_disk_is_described_as_the_kernel_shows_it() {
    let tree = Tree::with_sdb();
    let device = disk(&tree);
    assert_eq!((device.name.as_str(), device.bytes), ("sdb", 15_628_053_168 * 512));
    assert_eq!(
        (device.model.as_deref(), device.serial.as_deref()),
        (Some("ST8000NM000A"), Some("WSD0ABCD"))
    );
    assert_eq!(
        (device.logical_sector, device.physical_sector, device.rotational),
        (512, 4096, true)
    );
    assert_eq!(
        (device.scheduler.as_deref(), device.queue_depth, device.write_cache.as_deref()),
        (Some("mq-deadline"), Some(32), Some("write back"))
    );
    let names: Vec<_> = device.by_id.iter().filter_map(|path| file_name(path)).collect();
    assert_eq!(
        names,
        ["ata-ST8000NM000A_WSD0ABCD", "wwn-0x5000c500c0ffee00"],
        "the telling name comes first"
    );
    let stays = &device.by_id[0];
    assert_eq!(
        (device.better_name(&device.node), device.better_name(stays)),
        (Some(stays.as_path()), None)
    );
    assert_eq!((refusals(&tree), rejects(&device)), (String::new(), String::new()));
    assert_eq!(BlockDevice::list(&tree.system).expect("the tree is there"), [device]);
}

#[test]
fn what_cannot_be_a_drive_is_refused_with_the_remedy() {
    for (file, text, expected) in [
        ("size", "0", "no medium"),
        ("ro", "1", "read-only; lift its write protection"),
        ("queue/zoned", "host-managed", "host-managed shingled disk"),
        (
            "queue/logical_block_size",
            "520",
            "its sectors have 520 bytes; expected a power of two from 512",
        ),
        ("queue/logical_block_size", "65536", "not a multiple of its sectors of 65536 bytes"),
    ] {
        let tree = Tree::with_sdb();
        tree.write(file, text);
        let said = refusals(&tree);
        assert!(said.contains(expected), "{file} = {text}: {said}");
    }
}

#[test]
fn what_has_no_head_to_schedule_is_served_without_promises() {
    for (file, text, expected) in [
        ("queue/rotational", "0", "not guaranteed"),
        ("queue/zoned", "host-aware", "not guaranteed"),
        ("alignment_offset", "512", "align the partition"),
        ("alignment_offset", "-1", "align the partition"),
    ] {
        let tree = Tree::with_sdb();
        tree.write(file, text);
        assert!(rejects(&disk(&tree)).contains(expected), "{file} = {text}");
        assert_eq!(refusals(&tree), "");
    }
}

#[test]
fn a_mount_is_named_with_its_place_also_that_of_a_partition() {
    let tree = Tree::with_sdb();
    tree.partition("sdb1", "8:17");
    // The second is of a file system that has a number of its own.
    let mounts = "22 1 0:21 / /proc rw - proc proc rw\n40 1 8:17 / /srv/my\\040disk rw,relatime - \
        ext4 /dev/sdb1 rw\n41 1 0:44 /vol /srv rw - btrfs /dev/sdb rw\n";
    tree.put(tree.system.proc.join("self/mountinfo"), mounts);
    let said = refusals(&tree);
    assert!(
        said.contains("sdb1 is mounted on /srv/my disk")
            && said.contains("umount /srv/my disk")
            && said.contains("sdb is mounted on /srv"),
        "{said}"
    );
    let partition = BlockDevice::with_number(&tree.system, DeviceNumber { major: 8, minor: 17 })
        .expect("the tree has it");
    assert_eq!(
        (partition.disk.as_deref(), partition.disk_name(), partition.bytes),
        (Some("sdb"), "sdb", 1 << 20)
    );
    assert_eq!(
        partition.users.len(),
        2,
        "a mount of the whole disk is a use of its partition too: {:?}",
        partition.users
    );
    assert!(rejects(&partition).contains("a part of sdb"), "{}", rejects(&partition));
    // The running system is not to be unmounted.
    let root = "23 1 8:17 / / rw - ext4 /dev/sdb1 rw\n";
    tree.put(tree.system.proc.join("self/mountinfo"), root);
    let said = refusals(&tree);
    let expected = "sdb1 is mounted on /; / is part of the running system, so name another disk";
    assert!(said.contains(expected) && !said.contains("to free it"), "{said}");
}

#[test]
fn swap_and_devices_made_of_it_are_named() {
    let tree = Tree::with_sdb();
    tree.put(
        tree.system.proc.join("swaps"),
        "Filename Type Size Used Priority\n/dev/sdb partition 65532 0 -2\n",
    );
    for (directory, text) in [
        ("class/block/dm-3/dm/name", "vg-lv\n"),
        ("class/block/loop4/loop/backing_file", "/dev/sdb\n"),
    ] {
        tree.put(tree.system.sys.join(directory), text);
    }
    for holder in ["md0", "dm-3"] {
        std::fs::create_dir_all(tree.disk_path("holders").join(holder)).expect("the tree is ours");
    }
    let said = refusals(&tree);
    for part in [
        "swapoff /dev/sdb",
        "sdb is part of md0",
        "held by dm-3 (vg-lv)",
        "part of loop4",
        "losetup -d /dev/loop4",
        "mdadm --stop /dev/md0",
    ] {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
}

#[test]
fn a_process_that_may_write_is_a_user_and_one_that_only_reads_is_none() {
    for (flags, used) in [("0100002", true), ("02100001", true), ("0100000", false)] {
        let tree = Tree::with_sdb();
        let process = tree.system.proc.join("1234");
        tree.put(process.join("comm"), "qemu-kvm\n");
        tree.put(process.join("fdinfo/7"), &format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t5\n"));
        std::fs::create_dir_all(process.join("fd")).expect("the tree is ours");
        symlink("/dev/sdb", process.join("fd/7")).expect("the tree is ours");
        let said = refusals(&tree);
        assert_eq!(
            said.contains("open for writing by qemu-kvm (process 1234)"),
            used,
            "{flags}: {said}"
        );
        assert_eq!(
            disk(&tree).users.iter().filter(|user| user.is_process()).count(),
            usize::from(used)
        );
    }
}

#[test]
fn a_loop_device_is_in_use_while_another_drive_holds_its_file() {
    let tree = Tree::with_sdb();
    let directory = "devices/virtual/block/loop7";
    let file = tree.root.path().join("disk.img");
    for (name, text) in
        [("dev", "7:7\n"), ("size", "2048\n"), ("loop/backing_file", file.to_str().expect("UTF-8"))]
    {
        tree.put(tree.system.sys.join(directory).join(name), text);
    }
    tree.add("loop7", "7:7", directory);
    let held = std::fs::File::create(&file).expect("the tree is ours");
    let refusals = || {
        let devices = BlockDevice::list(&tree.system).expect("the tree is there");
        let device = devices.into_iter().find(|device| device.name == "loop7").expect("listed");
        device.refusals().iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(refusals(), "");
    held.lock().expect("no other holds it");
    let expected = "disk.img, the file of loop7, is locked by another headtime; to free it: stop \
        that program";
    assert!(refusals().contains(expected), "{}", refusals());
}

#[test]
fn what_udev_knows_is_a_reject_not_a_refusal() {
    let tree = Tree::with_sdb();
    tree.put(
        tree.system.udev.join("data/b8:16"),
        "S:disk/by-id/x\nE:ID_MODEL=from-udev\nE:ID_PART_TABLE_TYPE=gpt\n",
    );
    let device = disk(&tree);
    assert_eq!(device.model.as_deref(), Some("ST8000NM000A"), "the kernel's own word goes first");
    assert!(
        rejects(&device).contains("it holds gpt partition table")
            && rejects(&device).contains("--initialize"),
        "{}",
        rejects(&device)
    );
    // The file systems on its partitions are named, too.
    tree.partition("sdb1", "8:17");
    tree.partition("sdb2", "8:18");
    tree.put(tree.system.udev.join("data/b8:17"), "E:ID_FS_TYPE=ext4\n");
    let content = "gpt partition table (ext4 on sdb1, sdb2)";
    assert_eq!(disk(&tree).content.as_deref(), Some(content));
    assert!(rejects(&disk(&tree)).contains("serve that as it is with --existing"));
    tree.put(tree.system.udev.join("data/b8:16"), "E:ID_MODEL=from-udev\n");
    assert_eq!(disk(&tree).content.as_deref(), Some("partitions (ext4 on sdb1, sdb2)"));
}

#[test]
fn a_message_does_not_name_hundreds_of_mounts() {
    let tree = Tree::with_sdb();
    let mounts: String = (0..300)
        .map(|index| format!("{index} 1 8:16 / /container/{index} rw - ext4 /dev/sdb rw\n"))
        .collect();
    tree.put(tree.system.proc.join("self/mountinfo"), &mounts);
    let said = refusals(&tree);
    assert!(said.contains("and 296 more") && said.len() < 600, "{said}");
}

#[test]
fn a_tree_that_is_not_there_is_an_error_and_not_an_empty_machine() {
    let root = tempfile::tempdir().expect("a place for files");
    let system = SystemPaths::under(root.path());
    assert!(BlockDevice::list(&system).is_err());
    assert!(BlockDevice::with_number(&system, DeviceNumber { major: 8, minor: 16 }).is_err());
}
