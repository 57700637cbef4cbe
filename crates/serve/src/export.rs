//! What clients can open: a run of the drive's sectors under a name.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_nbd::server::Refusal;
use headtime_nbd::{BlockSizes, ExportFlags, ExportInfo, ListedExport};
use headtime_sched::VolumeId;
use headtime_units::{ByteSize, Extent, Nanos, SectorSize};

use crate::stats::ExportStats;
use crate::volumes::{DriveShape, Volume};

/// One export.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) volume: VolumeId,
    /// The drive's sectors behind it.
    pub(crate) extent: Extent,
    pub(crate) sector: SectorSize,
    /// The time each read and write has.
    pub(crate) deadline: Option<Nanos>,
    /// What clients are told.
    pub(crate) info: ExportInfo,
    pub(crate) stats: Arc<ExportStats>,
}

/// All exports of a server, by name.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    by_name: BTreeMap<String, Arc<Export>>,
}

impl Export {
    /// A volume as an export of its name. `request_bytes` is the longest read or write.
    pub(crate) fn of_volume(volume: &Volume, shape: DriveShape, physical_block: u32, request_bytes: u32) -> Self {
        let settings = &volume.settings;
        let mut export = Self::new(volume.id, &volume.name, volume.extent, settings.deadline, shape.sector, physical_block, request_bytes);
        export.info.description.clone_from(&settings.description);
        if settings.read_only {
            export.info.flags = export.info.flags | ExportFlags::READ_ONLY;
        }
        export
    }

    /// The whole drive as one export.
    pub(crate) fn of_drive(name: &str, shape: DriveShape, physical_block: u32, request_bytes: u32) -> Self {
        let extent = Extent::new(headtime_units::Lba::new(0), shape.capacity);
        Self::new(VolumeId(0), name, extent, None, shape.sector, physical_block, request_bytes)
    }

    fn new(
        volume: VolumeId,
        name: &str,
        extent: Extent,
        deadline: Option<Nanos>,
        sector: SectorSize,
        physical_block: u32,
        request_bytes: u32,
    ) -> Self {
        let size_bytes = sector.bytes_of(extent.len);
        // 4 KiB is what clients and file systems work in; a physical block of less is no reason to advise less.
        let preferred = physical_block.max(4096).max(sector.bytes()).next_power_of_two().min(request_bytes);
        let block_sizes = BlockSizes { minimum: sector.bytes(), preferred, maximum: request_bytes };
        let info = ExportInfo { block_sizes, ..ExportInfo::disk(name, size_bytes) };
        let stats = Arc::new(ExportStats::new(volume, name, ByteSize::new(size_bytes), deadline));
        Self { volume, extent, sector, deadline, info, stats }
    }
}

impl Exports {
    /// Adds an export under the name it tells.
    pub(crate) fn add(&mut self, export: Export) -> Arc<Export> {
        let export = Arc::new(export);
        self.by_name.insert(export.info.name.clone(), Arc::clone(&export));
        export
    }

    /// All exports, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Export>> {
        self.by_name.values()
    }

    /// The export called `name`; the empty name means the only one there is.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<Export>, Refusal> {
        if let Some(export) = self.by_name.get(name) {
            return Ok(export);
        }
        if !name.is_empty() {
            return Err(Refusal::Unknown);
        }
        let mut all = self.by_name.values();
        match (all.next(), all.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(Refusal::Policy(format!("there is no default export; name one of {}", self.names()))),
        }
    }

    /// What LIST answers.
    pub(crate) fn list(&self) -> Vec<ListedExport> {
        let listed = |export: &Arc<Export>| ListedExport { name: export.info.name.clone(), description: export.info.description.clone() };
        self.by_name.values().map(listed).collect()
    }

    /// The first few names, for messages.
    fn names(&self) -> String {
        const SHOWN: usize = 8;
        let names: Vec<&str> = self.by_name.keys().take(SHOWN).map(String::as_str).collect();
        let more = if self.by_name.len() > SHOWN { ", …" } else { "" };
        format!("{}{more}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::Settings;
    use headtime_units::Sectors;

    const SHAPE: DriveShape = DriveShape { sector: SectorSize::B512, capacity: Sectors::new(1 << 20) };

    fn volume(name: &str, read_only: bool) -> Export {
        let settings = Settings { read_only, description: "text".to_string(), ..Settings::default() };
        let volume = Volume { id: VolumeId(1), name: name.to_string(), extent: Extent::from_numbers(2048, 4096), settings };
        Export::of_volume(&volume, SHAPE, 512, 32 << 20)
    }

    #[test]
    fn an_export_tells_what_the_protocol_allows_and_the_drive_is() {
        let export = volume("rec", true);
        export.info.check().unwrap();
        assert_eq!(export.info.block_sizes, BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 });
        assert_eq!(export.info.size_bytes, 4096 * 512);
        for flag in [ExportFlags::READ_ONLY, ExportFlags::ROTATIONAL, ExportFlags::CAN_MULTI_CONN, ExportFlags::SEND_FUA, ExportFlags::SEND_CACHE] {
            assert!(export.info.flags.contains(flag), "{flag:?}");
        }
        assert!(!volume("rec", false).info.flags.contains(ExportFlags::READ_ONLY));
    }

    #[test]
    fn the_empty_name_means_the_only_export_and_says_so_otherwise() {
        let mut exports = Exports::default();
        exports.add(volume("rec", false));
        assert_eq!(exports.find("").unwrap().info.name, "rec");
        exports.add(volume("db", false));
        assert_eq!(exports.find("").unwrap_err(), Refusal::Policy("there is no default export; name one of db, rec".to_string()));
        assert_eq!(exports.find("x").unwrap_err(), Refusal::Unknown);
        assert_eq!(exports.list().iter().map(|listed| listed.name.as_str()).collect::<Vec<_>>(), ["db", "rec"]);
    }
}
