//! Exports: the named block devices that clients can open. Each is a class of requests of a volume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use headtime_nbd::server::ExportRefusal;
use headtime_nbd::{BlockSizes, ExportFlags, ExportInfo, ListedExport};
use headtime_sched::{ClassId, Tenant, VolumeId};
use headtime_units::Extent;
use parking_lot::RwLock;

use crate::stats::{ExportStats, Refusals};
use crate::volumes::{DriveShape, LiveVolume, VolumeClass, VolumeSettings};

/// One export: a class of requests of one volume.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) volume: Arc<LiveVolume>,
    pub(crate) class: VolumeClass,
    block_sizes: BlockSizes,
    rotation: Rotation,
    pub(crate) stats: Arc<ExportStats>,
}

/// All exports of a server, by name. Exports can be added and removed while the server runs.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    by_name: RwLock<BTreeMap<String, Arc<Export>>>,
    /// The number of exports.
    count: Arc<AtomicUsize>,
    /// Refused connections and reservations.
    pub(crate) refusals: Refusals,
}

/// The block sizes that exports report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// Bytes of a physical sector of the drive.
    pub(crate) physical: u32,
    /// The longest read or write.
    pub(crate) request_bytes: u32,
    pub(crate) rotation: Rotation,
}

/// The kind of medium that clients learn of. The kernel's NBD client keeps it as
/// `queue/rotational`, by which file systems choose between placing data close together and
/// spreading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotation {
    /// A rotating disk, or a drive that is not known not to be one.
    Disk,
    /// Memory, or a block device of which the kernel knows that it does not rotate.
    None,
}

impl Export {
    /// The export of a volume for one class.
    pub(crate) fn of(volume: &Arc<LiveVolume>, class: VolumeClass, blocks: Blocks) -> Self {
        let name = class.export(&volume.name);
        let sector = volume.sector.bytes();
        // Clients and file systems work in blocks of 4 KiB, so a smaller physical sector is not
        // preferred.
        let preferred =
            blocks.physical.max(4096).max(sector).next_power_of_two().min(blocks.request_bytes);
        let block_sizes = BlockSizes { minimum: sector, preferred, maximum: blocks.request_bytes };
        let stats = Arc::new(ExportStats::new(
            volume.id,
            &volume.name,
            &name,
            volume.size(),
            volume.settings().of_class(class).and_then(|class| class.deadline),
        ));
        let rotation = blocks.rotation;
        Self { name, volume: Arc::clone(volume), class, block_sizes, rotation, stats }
    }

    /// The export of a whole drive.
    pub(crate) fn of_drive(name: &str, shape: DriveShape, blocks: Blocks) -> Self {
        let extent = Extent::new(headtime_units::Lba::new(0), shape.capacity);
        Self::of(
            &LiveVolume::of(
                VolumeId(0),
                name.to_owned(),
                extent,
                VolumeSettings::default(),
                shape.sector,
            ),
            VolumeClass::Ordinary,
            blocks,
        )
    }

    /// The tenant that its requests are charged to.
    pub(crate) fn tenant(&self) -> Tenant {
        Tenant { volume: self.volume.id, class: ClassId(self.class.number()) }
    }

    /// The current description of the export for clients.
    pub(crate) fn info(&self) -> ExportInfo {
        let settings = self.volume.settings();
        let mut info = ExportInfo::disk(self.name.as_str(), self.volume.size().get());
        info.block_sizes = self.block_sizes;
        info.description = settings.description;
        if self.rotation == Rotation::None {
            info.flags = info.flags.without(ExportFlags::ROTATIONAL);
        }
        if settings.read_only {
            info.flags = info.flags | ExportFlags::READ_ONLY;
        }
        info
    }
}

impl Exports {
    pub(crate) fn add(&self, export: Export) {
        let mut exports = self.by_name.write();
        exports.insert(export.name.clone(), Arc::new(export));
        self.counted(&exports);
    }

    /// The live counter of exports.
    pub(crate) fn count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.count)
    }

    fn counted(&self, exports: &BTreeMap<String, Arc<Export>>) {
        self.count.store(exports.len(), Ordering::Relaxed);
    }

    /// Exports the current classes of a volume. Exports that stay keep their statistics; removed
    /// ones stay open for their clients until they disconnect.
    pub(crate) fn serve(&self, volume: &Arc<LiveVolume>, blocks: Blocks) {
        let settings = volume.settings();
        let mut exports = self.by_name.write();
        for class in VolumeClass::ALL {
            let name = class.export(&volume.name);
            let there = exports.get(&name).filter(|export| Arc::ptr_eq(&export.volume, volume));
            match (settings.of_class(class), there) {
                (Some(class), Some(export)) => export.stats.set(volume.size(), class.deadline),
                (Some(_), None) => {
                    drop(exports.insert(name, Arc::new(Export::of(volume, class, blocks))))
                }
                (None, _) => drop(exports.remove(&name)),
            }
        }
        self.counted(&exports);
    }

    /// Removes all exports of a volume.
    pub(crate) fn withdraw(&self, volume: &str) {
        let mut exports = self.by_name.write();
        for class in VolumeClass::ALL {
            exports.remove(&class.export(volume));
        }
        self.counted(&exports);
    }

    /// The served volume of this name.
    pub(crate) fn volume(&self, name: &str) -> Option<Arc<LiveVolume>> {
        self.by_name
            .read()
            .get(name)
            .filter(|export| export.volume.name == name)
            .map(|export| Arc::clone(&export.volume))
    }

    /// All exports, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Export>> {
        self.by_name.read().values().cloned().collect()
    }

    /// Finds an export among those that `may_see` allows. The empty name finds the only one.
    pub(crate) fn find(
        &self,
        name: &str,
        may_see: impl Fn(&Export) -> bool,
    ) -> Result<Arc<Export>, ExportRefusal> {
        let exports = self.by_name.read();
        let mut seen = exports.values().filter(|export| may_see(export));
        if !name.is_empty() {
            return exports
                .get(name)
                .filter(|export| may_see(export))
                .cloned()
                .ok_or(ExportRefusal::Unknown);
        }
        match (seen.next(), seen.next()) {
            (Some(only), None) => Ok(Arc::clone(only)),
            (None, _) => Err(ExportRefusal::Unknown),
            _ => Err(ExportRefusal::Policy(format!(
                "there is no default export; name one of {}",
                names(&exports, may_see)
            ))),
        }
    }

    /// The answer to LIST for a client that may see some exports.
    pub(crate) fn list(&self, may_see: impl Fn(&Export) -> bool) -> Vec<ListedExport> {
        let listed = |export: &Arc<Export>| ListedExport {
            name: export.name.clone(),
            description: export.volume.settings().description,
        };
        self.by_name.read().values().filter(|export| may_see(export)).map(listed).collect()
    }
}

/// The first few names, for messages.
fn names(exports: &BTreeMap<String, Arc<Export>>, may_see: impl Fn(&Export) -> bool) -> String {
    const SHOWN: usize = 8;
    let seen =
        || exports.iter().filter(|(_, export)| may_see(export)).map(|(name, _)| name.as_str());
    let more = if seen().count() > SHOWN { ", …" } else { "" };
    format!("{}{more}", seen().take(SHOWN).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::VolumeClass::{Bulk, Realtime};
    use headtime_units::SectorSize;

    const BLOCKS: Blocks =
        Blocks { physical: 512, request_bytes: 32 << 20, rotation: Rotation::Disk };

    fn volume(name: &str, settings: VolumeSettings) -> Arc<LiveVolume> {
        LiveVolume::of(
            VolumeId(1),
            name.to_owned(),
            Extent::from_numbers(2048, 4096),
            settings,
            SectorSize::B512,
        )
    }

    fn names_of(exports: &Exports) -> Vec<String> {
        exports.list(|_| true).into_iter().map(|listed| listed.name).collect()
    }

    #[test]
    fn an_export_tells_what_the_protocol_allows_and_the_drive_is() {
        let live = volume(
            "rec",
            VolumeSettings {
                read_only: true,
                description: "text".to_owned(),
                ..VolumeSettings::default()
            },
        );
        let export = Export::of(&live, VolumeClass::Ordinary, BLOCKS);
        let info = export.info();
        info.check().unwrap();
        assert_eq!(
            info.block_sizes,
            BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 }
        );
        assert_eq!(info.size_bytes, 4096 * 512);
        for flag in [
            ExportFlags::READ_ONLY,
            ExportFlags::ROTATIONAL,
            ExportFlags::CAN_MULTI_CONN,
            ExportFlags::SEND_FUA,
            ExportFlags::SEND_CACHE,
        ] {
            assert!(info.flags.contains(flag), "{flag:?}");
        }
        let memory = Blocks { rotation: Rotation::None, ..BLOCKS };
        let flags = Export::of(&live, VolumeClass::Ordinary, memory).info().flags;
        assert!(!flags.contains(ExportFlags::ROTATIONAL), "{flags:?}");
        live.set(VolumeSettings::default());
        live.resize(Extent::from_numbers(2048, 8));
        assert!(
            !export.info().flags.contains(ExportFlags::READ_ONLY),
            "a new client sees the current state"
        );
        assert_eq!(export.info().size_bytes, 4096);
    }

    #[test]
    fn the_empty_name_means_the_only_export_and_says_so_otherwise() {
        let exports = Exports::default();
        exports.serve(&volume("rec", VolumeSettings::default()), BLOCKS);
        let everything = |_: &Export| true;
        assert_eq!(exports.find("", everything).unwrap().name, "rec");
        exports.serve(&volume("db", VolumeSettings::default()), BLOCKS);
        assert_eq!(
            exports.find("", everything).unwrap_err(),
            ExportRefusal::Policy("there is no default export; name one of db, rec".to_string())
        );
        assert_eq!(exports.find("x", everything).unwrap_err(), ExportRefusal::Unknown);
        assert_eq!(names_of(&exports), ["db", "rec"]);
        let only_db = |export: &Export| export.name == "db";
        assert_eq!(exports.find("", only_db).unwrap().name, "db");
        assert_eq!(
            exports.find("rec", only_db).unwrap_err(),
            ExportRefusal::Unknown,
            "an export without permission looks absent"
        );
        assert_eq!(exports.list(only_db).len(), 1);
    }

    #[test]
    fn classes_come_and_go_with_the_settings_and_a_volume_with_all_of_them() {
        let (exports, live) = (Exports::default(), volume("vol0", VolumeSettings::default()));
        exports.serve(&live, BLOCKS);
        let bulk = Some(Bulk.default_settings());
        let realtime = Some(Realtime.default_settings());
        live.set(VolumeSettings { realtime, bulk, ..VolumeSettings::default() });
        let before = exports.find("vol0", |_| true).unwrap();
        exports.serve(&live, BLOCKS);
        assert_eq!(names_of(&exports), ["vol0", "vol0@bulk", "vol0@realtime"]);
        let count = exports.count();
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert!(
            Arc::ptr_eq(&before, &exports.find("vol0", |_| true).unwrap()),
            "its statistics continue"
        );
        live.set(VolumeSettings { bulk, ..VolumeSettings::default() });
        exports.serve(&live, BLOCKS);
        assert_eq!(names_of(&exports), ["vol0", "vol0@bulk"]);
        exports.withdraw("vol0");
        assert!(names_of(&exports).is_empty() && exports.volume("vol0").is_none());
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
