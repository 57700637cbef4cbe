//! [`Surfaces`]: the sectors of each cylinder and surface, for means over the drive.

use alloc::vec::Vec;

use super::{Layout, LayoutKind};

/// Cylinders of a surface with equal numbers of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SurfaceRow {
    pub(crate) head: u16,
    pub(crate) first_cylinder: u32,
    /// The cylinder after the last.
    pub(crate) end_cylinder: u32,
    /// Sectors of each cylinder.
    pub(crate) sectors: u64,
}

/// All rows of a drive within its capacity.
#[derive(Clone, Debug)]
pub(crate) enum Surfaces {
    /// A few rows per zone; spares, slipped and reserved sectors count.
    Exact(Vec<SurfaceRow>),
    /// One row per run; only LBAs count, and rows may share cylinders.
    Measured(Vec<SurfaceRow>),
}

impl Layout {
    /// The sectors of each surface. Sectors past the capacity are omitted by whole cylinders.
    pub(crate) fn surfaces(&self) -> Surfaces {
        match &self.map {
            LayoutKind::Zones(zones) => {
                let mut rows = Vec::new();
                for zone in &zones.zones {
                    let within = self
                        .capacity
                        .saturating_sub(zone.first_lba)
                        .min(zone.end_lba - zone.first_lba);
                    let cylinder_sectors =
                        zone.tracks.sectors() / u64::from(zone.end_cylinder - zone.first_cylinder);
                    let end_cylinder =
                        zone.first_cylinder + within.div_ceil(cylinder_sectors) as u32;
                    rows.extend((0..self.heads).filter(|_| within > 0).map(|head| SurfaceRow {
                        head,
                        first_cylinder: zone.first_cylinder,
                        end_cylinder,
                        sectors: u64::from(zone.tracks.sectors_of(head)),
                    }));
                }
                Surfaces::Exact(rows)
            }
            LayoutKind::Runs(runs) => {
                let within = runs.extents().filter(|run| run.first_lba < self.capacity);
                let row = |run: super::runs::RunExtent| {
                    let (first_cylinder, end_cylinder) = (run.first_cylinder, run.end_cylinder);
                    SurfaceRow {
                        head: run.head,
                        first_cylinder,
                        end_cylinder,
                        sectors: run.lbas_per_track,
                    }
                };
                Surfaces::Measured(within.map(row).collect())
            }
        }
    }
}
