//! The keys of a scan that starts with the server.

use headtime_config::{Key, REQUIRED, Value, ValueErrors};
use headtime_sched::ScanPriority;
use headtime_tasks::TaskKind;
use headtime_units::SectorSize;

use super::Config;
use crate::scans::{StartScan, TermsChange};

/// The keys of a scan: the options of `headtime scan start`.
pub const SCAN_KEYS: &[Key<StartScan>] = &[
    Key {
        name: "target",
        takes: "NAME of a volume, or @drive",
        summary: "what is scanned; @drive is the whole drive",
        default: REQUIRED,
        set: |scan, value| value.text().map(|name| name.clone_into(&mut scan.target)),
    },
    Key {
        name: "task",
        takes: "scrub, backup or digest",
        summary: "the task; each target has at most one scan of each task",
        default: REQUIRED,
        set: |scan, value| value.parsed().map(|task| scan.task = task),
    },
    Key {
        name: "range",
        takes: "FROM..TO, FROM.. or FROM+LENGTH, such as 10GiB..20GiB",
        summary: "bytes of the target to read",
        default: "all",
        set: |scan, value| value.parsed().map(|range| scan.range = Some(range)),
    },
    Key {
        name: "digests",
        takes: "true or false",
        summary: "for a scrub: compare a digest of each mebibyte with the last scan's to find \
            silent changes",
        default: "false",
        set: |scan, value| value.boolean().map(|flag| scan.digests = flag),
    },
    Key {
        name: "to",
        takes: "PATH",
        summary: "for a backup: a new file for an image, with a date such as vol0-%Y-%m-%d.img if \
            it repeats, or a named pipe with a reader for a stream",
        default: "none; must be given for a backup",
        set: |scan, value| {
            let path = value.text()?;
            if !path.starts_with('/') {
                return Err(value.unexpected("an absolute path", "\"/backup/vol0.img\""));
            }
            scan.to = Some(path.into());
            Ok(())
        },
    },
    Key {
        name: "priority",
        takes: "N from 0 (most urgent) to 7",
        summary: "priority among the scans of the drive: gaps and idle time go to the most urgent \
            scan that can use them",
        default: "4",
        set: |scan, value| {
            let level = value.count(0..=u32::from(ScanPriority::LAST.level()))?;
            scan.terms.priority = ScanPriority::new(level as u8);
            Ok(())
        },
    },
    Key {
        name: "during",
        takes: "WINDOWS such as Mon-Fri 22:00-06:00; Sat,Sun, or none",
        summary: "windows of local time in which the scan reads",
        default: "none; at any time",
        set: |scan, value| {
            value.or_none(Value::parsed).map(|windows| scan.terms.during = Some(windows))
        },
    },
    Key {
        name: "every",
        takes: "TIME such as 4w, 1d or 12h, or none",
        summary: "time from one start to the next",
        default: "none; one pass",
        set: |scan, value| value.or_none(Value::parsed).map(|every| scan.terms.every = Some(every)),
    },
    Key {
        name: "wake",
        takes: "true or false",
        summary: "wake a drive in standby",
        default: "false; wait until a client wakes it",
        set: |scan, value| value.boolean().map(|flag| scan.terms.wake = Some(flag)),
    },
];

/// Reads one table `[[scan]]`.
pub(super) fn add_scan(config: &mut Config, table: &Value<'_>) -> Result<(), ValueErrors> {
    let mut scan = StartScan {
        target: String::new(),
        task: TaskKind::Scrub,
        range: None,
        digests: false,
        to: None,
        again: false,
        // A key that is left out again has its default again.
        terms: TermsChange {
            priority: Some(ScanPriority::DEFAULT),
            wake: Some(false),
            during: Some(None),
            every: Some(None),
        },
    };
    table.set_table("scan", &mut scan, SCAN_KEYS)?;
    let name = scan.name();
    if config.scans.iter().any(|other| other.name() == name) {
        return Err(table.error(format_args!(
            "scan: the {name} appears twice; a target has one scan of each task, so give one of \
                them another target or task, or leave it out"
        )));
    }
    scan.check_configured().map_err(|error| table.error(format_args!("scan: {error}")))?;
    config.scans.push(scan);
    Ok(())
}

impl Config {
    /// Ranges that end after a volume with a size in the configuration.
    pub(super) fn scan_contradictions(&self) -> Vec<String> {
        let too_long = |scan: &StartScan| {
            let volume = self.volumes.iter().find(|volume| volume.name == scan.target)?;
            let sectors = volume.size?.get() / u64::from(SectorSize::B512.bytes());
            scan.range_within(sectors).err().map(|error| format!("scan: {error}"))
        };
        self.scans.iter().filter_map(too_long).collect()
    }
}
