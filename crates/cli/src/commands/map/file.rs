//! Files of latency maps: read whole and checked, written aside, synced and renamed, so that nobody ever finds a part of one.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use headtime_belief::compact::{COMPACT_MAGIC, CompactMap};
use headtime_belief::matrix::{LatencyMatrix, MappedDrive};
use headtime_units::ByteSize;

use crate::Failure;

/// A map of either kind.
#[derive(Clone, Debug)]
pub(super) enum Map {
    Matrix(Box<LatencyMatrix>),
    Compact(Box<CompactMap>),
}

impl Map {
    /// The drive that it is of.
    pub(super) fn drive(&self) -> &MappedDrive {
        match self {
            Self::Matrix(map) => map.shape().drive(),
            Self::Compact(map) => map.drive(),
        }
    }

    /// How the kind is called.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Matrix(_) => "matrix",
            Self::Compact(_) => "compact",
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Matrix(map) => map.encode(),
            Self::Compact(map) => map.encode(),
        }
    }
}

/// Reads a map that may take `memory`.
pub(super) fn read(path: &Path, memory: ByteSize) -> Result<Map, Failure> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("map {name} cannot be read")).map_err(Failure::Asked)?;
    let map = if bytes.starts_with(&COMPACT_MAGIC) {
        CompactMap::decode(&bytes, memory).map(|map| Map::Compact(Box::new(map))).map_err(anyhow::Error::new)
    } else {
        LatencyMatrix::decode(&bytes, memory).map(|map| Map::Matrix(Box::new(map))).map_err(anyhow::Error::new)
    };
    map.with_context(|| format!("map {name}")).map_err(Failure::Asked)
}

/// Writes a map; where there is a file already, only with `replace`, and only one that is a map of the same drive.
pub(super) fn write(path: &Path, map: &Map, replace: bool) -> Result<u64, Failure> {
    if path.exists() {
        if !replace {
            return Err(Failure::Asked(anyhow!("{} exists; choose another file, or say --force to replace it", path.display())));
        }
        let there = read(path, ByteSize::new(u64::MAX))?;
        if there.drive() != map.drive() {
            let (theirs, ours) = (&there.drive().model, &map.drive().model);
            return Err(Failure::Asked(anyhow!(
                "{} is a map of another drive ('{theirs}', not '{ours}') and is left alone; choose another file",
                path.display()
            )));
        }
    }
    let bytes = map.encode();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut file = builder.tempfile_in(folder).with_context(|| format!("cannot write in {}", folder.display()))?;
    file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).with_context(|| format!("cannot write {}", path.display()))?;
    let written = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    written.map(drop).map_err(|error| error.error).with_context(|| format!("cannot write {}", path.display()))?;
    // The new name has to survive a power cut too.
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).with_context(|| format!("cannot sync {}", folder.display()))?;
    Ok(bytes.len() as u64)
}

/// Refuses a map of another drive than the one that is meant.
pub(super) fn check_drive(path: &Path, map: &Map, wanted: &MappedDrive) -> Result<(), Failure> {
    let theirs = map.drive();
    if theirs == wanted {
        return Ok(());
    }
    Err(Failure::Asked(anyhow!(
        "map {} is of drive model '{}' with {} of {} bytes, expected is '{}' with {} of {}; use a map of the same model and size",
        path.display(),
        theirs.model,
        theirs.capacity,
        theirs.sector.bytes(),
        wanted.model,
        wanted.capacity,
        wanted.sector.bytes(),
    )))
}
