//! Kernel settings that hinder a served block device, with the value found, the consequence and the
//! remedy. They are read each time they are asked for, because other programs (udev rules, tuned)
//! change them while the device is served.
//!
//! Worked example: `kernel_knobs = "keep"` and a disk with `mq-deadline` give
//! `sdb: queue/scheduler is mq-deadline, expected none: requests may be reordered …; set
//! kernel_knobs = "set", or run: echo 'none' > /sys/block/sdb/queue/scheduler`.

use std::path::{Path, PathBuf};

use super::knobs::{KERNEL_KNOBS, QUEUE_DEPTH, find};
use super::options::{KernelKnobs, RawOptions};
use crate::block_device::{BlockDevice, chosen, word};
use crate::buffer::PageCache;

/// The kernel settings of one served block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelWatch {
    disk: String,
    directory: PathBuf,
    options: RawOptions,
    cache: PageCache,
}

impl KernelWatch {
    /// The settings of `device` as a drive is opened with them, with direct I/O.
    #[must_use]
    pub fn direct(device: &BlockDevice, options: &RawOptions) -> Self {
        Self::new(device, options, PageCache::Bypass)
    }

    /// The settings of `device`, whose I/O uses the page cache or bypasses it.
    pub(crate) fn new(device: &BlockDevice, options: &RawOptions, cache: PageCache) -> Self {
        Self {
            disk: device.disk_name().to_owned(),
            directory: device.disk_directory(&options.system),
            options: options.clone(),
            cache,
        }
    }

    /// Returns a warning for each setting that hinders now. A setting that the kernel does not show
    /// is left out.
    #[must_use]
    pub fn hindrances(&self) -> Vec<String> {
        let keeps = self.options.kernel_knobs == KernelKnobs::Keep;
        let remedy = if keeps { "set kernel_knobs = \"set\", or run: " } else { "run: " };
        let knobs = KERNEL_KNOBS.iter().filter_map(|knob| {
            // Another depth only changes how many commands wait in the kernel.
            let expected = (knob.requested)(&self.options).filter(|_| knob.name != QUEUE_DEPTH)?;
            let (file, found) = self.shown(knob.files)?;
            (found != expected).then(|| self.text(&file, &found, &expected, knob.without, remedy))
        });
        let others = OTHERS.iter().filter_map(|setting| {
            let OtherSetting { file, expected, hinders, without } = setting;
            let (file, found) = self.shown(&[file])?;
            hinders(self, &found).then(|| self.text(&file, &found, expected, without, "run: "))
        });
        knobs.chain(others).collect()
    }

    /// The first of the files that the kernel shows, below the disk's directory, and its value.
    fn shown(&self, files: &[&str]) -> Option<(PathBuf, String)> {
        let file = files.iter().find_map(|pattern| find(&self.directory, pattern))?;
        let found = chosen(&word(&file)?).to_owned();
        Some((file.strip_prefix(&self.directory).ok()?.to_owned(), found))
    }

    fn text(
        &self,
        file: &Path,
        found: &str,
        expected: &str,
        without: &str,
        remedy: &str,
    ) -> String {
        let (disk, file) = (&self.disk, file.display());
        format!(
            "{disk}: {file} is {found}, expected {expected}: {without}; {remedy}echo '{expected}' \
                > /sys/block/{disk}/{file}"
        )
    }
}

/// A setting that is never changed here.
struct OtherSetting {
    file: &'static str,
    expected: &'static str,
    hinders: fn(&KernelWatch, &str) -> bool,
    without: &'static str,
}

const OTHERS: &[OtherSetting] = &[
    OtherSetting {
        file: "queue/write_cache",
        expected: "write back",
        hinders: |watch, found| {
            let drive = watch.shown(&["device/scsi_disk/*/cache_type"]);
            found == "write through"
                && drive.is_some_and(|(_, drive)| drive.starts_with("write back"))
        },
        without: "the drive has a write cache and the kernel drops every flush, so that a power \
            cut loses writes that were acknowledged as durable",
    },
    OtherSetting {
        file: "queue/read_ahead_kb",
        expected: "0",
        hinders: |watch, found| watch.cache == PageCache::Use && found != "0",
        without: "without direct I/O the page cache reads ahead of clients, which costs disk time \
            that no volume is charged with",
    },
    OtherSetting {
        file: "queue/wbt_lat_usec",
        expected: "0",
        hinders: |watch, found| watch.cache == PageCache::Use && found != "0",
        without: "without direct I/O the kernel holds writes back while reads wait, whatever was \
            decided here",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_device::tests::{Tree, disk};
    use crate::kernel_settings::KnobGuard;

    fn options(tree: &Tree, kernel_knobs: KernelKnobs) -> RawOptions {
        RawOptions { kernel_knobs, system: tree.system.clone(), ..RawOptions::default() }
    }

    #[test]
    fn settings_that_are_kept_are_reported_with_value_expectation_and_remedy() {
        let tree = Tree::with_sdb();
        let keep = options(&tree, KernelKnobs::Keep);
        let watch = KernelWatch::new(&disk(&tree), &keep, PageCache::Bypass);
        let [scheduler, merging] = &watch.hindrances()[..] else { panic!("{watch:?}") };
        assert_eq!(
            scheduler,
            "sdb: queue/scheduler is mq-deadline, expected none: requests may be reordered and \
                held back by the kernel, so that predicted times are off; set kernel_knobs = \
                \"set\", or run: echo 'none' > /sys/block/sdb/queue/scheduler"
        );
        assert!(merging.starts_with("sdb: queue/nomerges is 0, expected 2: "), "{merging}");
        // The present value counts, whatever changed it.
        tree.write("queue/scheduler", "[none] mq-deadline bfq");
        tree.write("queue/nomerges", "2");
        assert_eq!(watch.hindrances(), [""; 0]);
    }

    #[test]
    fn settings_that_were_set_are_reported_once_another_program_changes_them() {
        let tree = Tree::with_sdb();
        let set = options(&tree, KernelKnobs::Set);
        let (guard, _) = KnobGuard::set(&disk(&tree), &set);
        let watch = KernelWatch::new(&disk(&tree), &set, PageCache::Bypass);
        assert_eq!(watch.hindrances(), [""; 0]);
        tree.write("queue/scheduler", "none mq-deadline [bfq]");
        let [scheduler] = &watch.hindrances()[..] else { panic!("{watch:?}") };
        assert!(scheduler.contains("is bfq") && !scheduler.contains("kernel_knobs"), "{scheduler}");
        drop(guard);
    }

    #[test]
    fn a_kernel_that_drops_flushes_of_a_drive_with_a_cache_is_reported() {
        let tree = Tree::with_sdb();
        let set = options(&tree, KernelKnobs::Set);
        let (_guard, _) = KnobGuard::set(&disk(&tree), &set);
        let watch = KernelWatch::new(&disk(&tree), &set, PageCache::Bypass);
        tree.write("queue/write_cache", "write through");
        let [cache] = &watch.hindrances()[..] else { panic!("{watch:?}") };
        assert!(cache.contains("queue/write_cache is write through, expected write back"));
        assert!(cache.contains("drops every flush"), "{cache}");
        tree.write("device/scsi_disk/0:0:0:0/cache_type", "write through");
        assert_eq!(watch.hindrances(), [""; 0], "a drive without a cache needs no flush");
    }

    #[test]
    fn read_ahead_and_write_throttling_hinder_only_through_the_page_cache() {
        let tree = Tree::with_sdb();
        let set = options(&tree, KernelKnobs::Set);
        let (_guard, _) = KnobGuard::set(&disk(&tree), &set);
        tree.write("queue/read_ahead_kb", "128");
        tree.write("queue/wbt_lat_usec", "75000");
        let of = |cache| KernelWatch::new(&disk(&tree), &set, cache).hindrances();
        assert_eq!(of(PageCache::Bypass), [""; 0]);
        let [read_ahead, throttling] = &of(PageCache::Use)[..] else { panic!("two") };
        assert!(read_ahead.contains("queue/read_ahead_kb is 128, expected 0"), "{read_ahead}");
        assert!(throttling.contains("queue/wbt_lat_usec is 75000, expected 0"), "{throttling}");
    }
}
