//! Changes of the volumes of a running server. Each command is carried out completely or not at
//! all, and is durable before it is answered.
//!
//! A command is first checked against the table and the reservations; `dry_run` stops there. If the
//! volume shrinks or is removed, clients come next: forbidden requests are rejected, and earlier
//! ones are waited for. Then the table on the drive is replaced, which is the commit point: after a
//! crash the drive has the table before or after the command ([`super::Metadata`]). Finally clients
//! see growth, and the scheduler gets the new shares. A command that fails undoes its earlier
//! steps.

mod relocate;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headtime_io::{ChangeSharesError, DriveHandle, SlowRequest};
use headtime_tasks::TaskKind;
use headtime_units::{ByteSize, SectorSize, Share};
use parking_lot::{Mutex, MutexGuard};

use super::errors::VolumeError;
use super::relocation::RelocationStatus;
use super::relocation_file::RelocationFile;
use super::relocator::RelocationJob;
use super::settings::{ClassSettings, SettingsChange, VolumeClass};
use super::slot;
use super::store::{StoreError, VolumeStore};
use super::table::{Volume, VolumeSpec, VolumeTable};
use super::{FreeSpace, LiveVolume, shares};
use crate::disk::Disk;
use crate::export::{Blocks, Export, Exports};
use crate::scans::Scans;

/// The volumes of a server. Any thread may use it; commands are carried out one after the other.
pub struct Volumes {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) exports: Arc<Exports>,
    pub(super) scans: Arc<Scans>,
    /// The drive, for background work.
    handle: DriveHandle,
    blocks: Blocks,
    /// The volumes named in the configuration, with their sizes there.
    configured: Vec<VolumeSpec>,
    /// `None` if the whole drive is served.
    pub(super) store: Mutex<Option<VolumeStore>>,
    /// The last relocation since the server started.
    relocation: Mutex<Option<Arc<RelocationJob>>>,
    /// Keeps the relocation that runs over a restart, if the server has a state directory.
    relocation_file: Option<RelocationFile>,
}

/// A command for a volume or one of its classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOrder {
    /// `VOLUME` or `VOLUME@CLASS`.
    pub name: String,
    /// The new size.
    pub size: Option<ByteSize>,
    /// The bytes by which the volume grows, instead of a new size.
    pub grow_by: Option<ByteSize>,
    /// The change of its settings.
    pub settings: SettingsChange,
    /// A volume that shrinks may lose the data at its end.
    pub cut_data: bool,
    /// The volume may be taken from clients and scans that use it.
    pub force: bool,
    /// Check the command without carrying it out.
    pub dry_run: bool,
}

/// The volumes after a command.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumesNow {
    /// The selected volumes.
    pub volumes: Vec<VolumeNow>,
    /// The unallocated space.
    pub free: FreeSpace,
    /// The unreserved share of the drive's time.
    pub free_share: Share,
    /// Remarks for people.
    pub notes: Vec<String>,
}

/// The state of one volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeNow {
    /// Its entry in the table.
    pub volume: Volume,
    /// Its size.
    pub size: ByteSize,
    /// Its classes.
    pub classes: Vec<ClassNow>,
    /// Unfinished scans.
    pub scans: Vec<TaskKind>,
    /// The last relocation since the server started, if it is of this volume.
    pub relocation: Option<RelocationStatus>,
}

/// The state of one class of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassNow {
    /// The name of its export.
    pub export: String,
    /// Its guarantees and limits.
    pub settings: ClassSettings,
    /// The number of clients that have it open; `None` if it is not served.
    pub connections: Option<u64>,
}

/// The reason why a command failed. Nothing has changed, unless the message says otherwise.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum OrderError {
    /// The table does not allow the command, or cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The drive has no table.
    #[error(
        "the whole drive is served as one export, so it has no volumes; serve it with `headtime \
            serve`"
    )]
    WholeDrive,
    #[error(
        "`{export}`: a volume has the classes realtime and bulk; write {volume}@realtime or \
            {volume}@bulk"
    )]
    UnknownClass { export: String, volume: String },
    #[error("volume {volume} has no class {class}; it has {has}")]
    NoClass { volume: String, class: &'static str, has: String },
    #[error("{export} is a class and shares the sectors of its volume; give a size to {volume}")]
    ClassSize { export: String, volume: String },
    /// The scheduler rejects the terms.
    #[error("{0}")]
    Terms(String),
    #[error(
        "volume {name}: the change is on the drive, but the scheduler did not apply it: {error}; \
            it takes effect after a restart"
    )]
    Shares { name: String, error: ChangeSharesError },
    /// Clients or scans use the volume.
    #[error(
        "volume {name} is in use by {by}; stop them, or add `--force` (`force` at the \
            control socket), which takes the volume from them"
    )]
    InUse { name: String, by: String },
    /// A relocation runs.
    #[error(
        "volume {name} is being relocated, which must end first; see its progress with `headtime \
            volume show {name}`, or end it with `headtime volume relocate {name} --cancel`"
    )]
    Relocating { name: String },
    /// No relocation runs.
    #[error("volume {name} is not being relocated, so there is nothing to cancel")]
    NotRelocating { name: String },
    #[error(
        "the relocation of volume {name} ends as soon as its writes in flight are complete, which \
            they are not after {patience:?}; check the drive, and its state with `headtime volume \
            show {name}`"
    )]
    StillRelocating { name: String, patience: Duration },
    #[error("{export} is a class and shares the sectors of its volume; relocate {volume}")]
    ClassRelocation { export: String, volume: String },
    /// The state directory cannot be written.
    #[error(
        "volume {name} is not relocated, because {} cannot be written, which keeps the relocation \
            over a restart: {error}; free space, or check its file system",
        path.display()
    )]
    RelocationFile { name: String, path: PathBuf, error: std::io::Error },
    /// The system has no further thread.
    #[error("volume {name}: its relocation cannot start a thread: {error}; free some memory")]
    Thread { name: String, error: std::io::Error },
    /// Requests in flight did not complete.
    #[error(
        "volume {name}: {requests} requests were still in flight after {patience:?}; nothing was \
            changed; check the drive and repeat the command"
    )]
    Busy { name: String, requests: u64, patience: Duration },
}

/// The longest wait for requests in flight: longer than a healthy drive takes for the deepest queue
/// of one connection.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Volumes {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        exports: Arc<Exports>,
        scans: Arc<Scans>,
        handle: DriveHandle,
        blocks: Blocks,
        configured: Vec<VolumeSpec>,
        store: Option<VolumeStore>,
    ) -> Self {
        let (store, relocation) = (Mutex::new(store), Mutex::default());
        let relocation_file = None;
        Self {
            disk,
            exports,
            scans,
            handle,
            blocks,
            configured,
            store,
            relocation,
            relocation_file,
        }
    }

    /// Keeps the relocation that runs in a file.
    pub(crate) fn keep_relocation_in(mut self, file: Option<RelocationFile>) -> Self {
        self.relocation_file = file;
        self
    }

    /// All volumes of the drive by address, including those that are not served.
    pub fn list(&self) -> Result<VolumesNow, OrderError> {
        let mut store = self.store.lock();
        Ok(self.now(opened(&mut store)?.table(), |_| true, Vec::new()))
    }

    /// One volume.
    pub fn show(&self, name: &str) -> Result<VolumesNow, OrderError> {
        let mut store = self.store.lock();
        let table = opened(&mut store)?.table();
        let (name, _) = VolumeClass::of_export(name);
        table.clone().remove(name)?;
        Ok(self.now(table, |volume| volume.name == name, Vec::new()))
    }

    /// The last requests that were slow or missed their deadline.
    pub(crate) fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        self.disk.slow_requests()
    }

    /// Every class of every volume, with the name of its export.
    pub(crate) fn export_names(&self) -> Vec<(Volume, VolumeClass, String)> {
        let mut store = self.store.lock();
        let volumes =
            opened(&mut store).map(|store| store.table().volumes().to_vec()).unwrap_or_default();
        let classes = |volume: Volume| {
            let classes: Vec<VolumeClass> =
                volume.settings.classes().map(|(class, _)| class).collect();
            classes
                .into_iter()
                .map(move |class| (volume.clone(), class, class.export(&volume.name)))
        };
        volumes.into_iter().flat_map(classes).collect()
    }

    /// The sector size of the drive.
    pub(crate) fn sector_bytes(&self) -> u32 {
        self.sector().bytes()
    }

    /// Adds a volume and serves it at once, or adds a class to a volume.
    pub fn add(&self, order: &VolumeOrder) -> Result<VolumesNow, OrderError> {
        let (name, class) = volume_and_class(order)?;
        if class != VolumeClass::Ordinary {
            return self.set_class(order, name, class);
        }
        let settings = SettingsChange { always_served: Some(true), ..order.settings.clone() };
        let spec = VolumeSpec { name: order.name.clone(), size: order.size, settings };
        let mut store = self.store.lock();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
        after.add(&spec)?;
        self.check_terms(store.table(), &after, &order.name)?;
        let mut notes = self.ignored_terms_note(&after, name);
        notes.extend(extents_notes(store.table(), &after, name));
        notes.extend(after.rounding_note(&spec));
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        let volume = store.change(&*self.disk, |table| table.add(&spec).cloned())?;
        // After a crash during a removal, scans of an earlier volume of this name may have left
        // state.
        self.scans.forget_all(name);
        self.scans.set_target(name, Some(volume.extents.clone()));
        // The terms come first, so that they cover the first request.
        let shares_set = self.set_shares(None, Some(&volume));
        self.disk.name_volume(volume.id, name);
        self.exports.serve(&LiveVolume::new(&volume, self.sector()), self.blocks);
        shares_set?;
        tracing::info!(volume = name, "added");
        Ok(self.now(store.table(), |volume| volume.name == name, notes))
    }

    /// Changes settings and size of a volume, or settings of a class, with immediate effect.
    ///
    /// Clients keep seeing the size from when they opened the export, because NBD has no way to
    /// announce a new one. Requests past the new end are rejected.
    pub fn set(&self, order: &VolumeOrder) -> Result<VolumesNow, OrderError> {
        let (name, class) = volume_and_class(order)?;
        if class != VolumeClass::Ordinary {
            return self.set_class(order, name, class);
        }
        let mut store = self.store.lock();
        let store = opened(&mut store)?;
        let grown = order.grow_by.and_then(|by| {
            let size = store.table().size_of(store.table().find(name)?);
            Some(ByteSize::new(size.get().saturating_add(by.get())))
        });
        let spec = VolumeSpec {
            name: order.name.clone(),
            size: order.size.or(grown),
            settings: order.settings.clone(),
        };
        let mut after = store.table().clone();
        let changed = after.change(&spec, order.cut_data)?.clone();
        let before =
            store.table().find(name).expect("a volume that can be changed is there").clone();
        self.check_terms(store.table(), &after, &order.name)?;
        let resized = changed.extents != before.extents;
        if resized {
            self.check_not_relocating(|of| of == name)?;
        }
        let scans = self.scans.unfinished(name);
        if resized && !scans.is_empty() && !order.force {
            return Err(in_use(name, 0, &scans));
        }
        let mut notes = self.ignored_terms_note(&after, name);
        if resized && self.connections(name) > 0 {
            notes.push(format!(
                "clients that have {name} open see its new size when they open it again"
            ));
        }
        notes.extend(extents_notes(store.table(), &after, name));
        notes.extend(after.rounding_note(&spec));
        if resized {
            notes.extend(self.scans.notes_on_change(name, "it is resized"));
        }
        let size = after.size_of(&changed);
        let named = self.configured.iter().find(|configured| configured.name == name);
        let other = |named: &ByteSize| after.sectors_for(*named) != changed.extents.sectors();
        if let Some(named) = named.and_then(|named| named.size).filter(other) {
            notes.push(format!(
                "{name} keeps this size at the next start, which warns that the configuration \
                    has {} bytes; write {} there too, or leave the size out",
                named.get(),
                size.get()
            ));
        }
        let other = named.map(|named| named.settings.keys_that_change(&changed.settings));
        notes.extend(other.filter(|keys| !keys.is_empty()).map(|keys| {
            format!(
                "the configuration has other values of {} for {name}, which the next start \
                    applies; change them there too, or leave them out",
                keys.join(", ")
            )
        }));
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        let live = self.exports.volume(name);
        let shrinks = changed.extents.sectors() < before.extents.sectors();
        if let Some(live) = live.as_ref().filter(|_| shrinks) {
            live.resize(changed.extents.clone());
            if !live.wait_for_earlier(TIMEOUT) {
                live.resize(before.extents.clone());
                return Err(OrderError::Busy {
                    name: name.to_owned(),
                    requests: live.in_flight(),
                    patience: TIMEOUT,
                });
            }
        }
        let done = store.change(&*self.disk, |table| table.change(&spec, order.cut_data).cloned());
        let repeated = if resized && done.is_ok() {
            self.scans.forget_before_change(name)
        } else {
            Vec::new()
        };
        let settled = done.as_ref().unwrap_or(&before);
        self.scans.set_target(name, Some(settled.extents.clone()));
        self.scans.start_after_change(&repeated);
        if let Some(live) = live {
            live.resize(settled.extents.clone());
            live.set(settled.settings.clone());
            self.exports.serve(&live, self.blocks);
        }
        let changed = done?;
        self.set_shares(Some(&before), Some(&changed))?;
        Ok(self.now(store.table(), |volume| volume.name == name, notes))
    }

    /// Removes a volume, or a class of one. Its sectors are free when this returns; their data
    /// stays.
    pub fn remove(&self, order: &VolumeOrder) -> Result<VolumesNow, OrderError> {
        let (name, class) = volume_and_class(order)?;
        let is_relocating = |of: &str| class == VolumeClass::Ordinary && of == name;
        // Its thread needs the store.
        if order.force && !order.dry_run && self.check_not_relocating(is_relocating).is_err() {
            self.end_relocation(name)?;
        }
        let mut store = self.store.lock();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
        if !order.force {
            self.check_not_relocating(is_relocating)?;
        }
        let before = if class == VolumeClass::Ordinary {
            after.remove(name)?
        } else {
            let before = after.find(name).cloned();
            after.change_class(name, class, None)?;
            before.expect("a volume that can be changed is there")
        };
        if before.settings.of_class(class).is_none() {
            let has: Vec<String> =
                before.settings.classes().map(|(class, _)| class.export(name)).collect();
            return Err(OrderError::NoClass {
                volume: name.to_owned(),
                class: class.name(),
                has: has.join(", "),
            });
        }
        let (connections, scans) = match class {
            VolumeClass::Ordinary => (self.connections(name), self.scans.unfinished(name)),
            class => (
                self.export(&class.export(name)).map_or(0, |export| export.stats.connections()),
                Vec::new(),
            ),
        };
        if (connections > 0 || !scans.is_empty()) && !order.force {
            return Err(in_use(&order.name, connections, &scans));
        }
        let mut notes = Vec::new();
        if class == VolumeClass::Ordinary
            && self.configured.iter().any(|configured| configured.name == name)
        {
            notes.push(format!(
                "the configuration names {name}: remove it there too, or the next \
                start adds it again, empty"
            ));
        }
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        if class != VolumeClass::Ordinary {
            let volume = store
                .change(&*self.disk, |table| table.change_class(name, class, None).cloned())?;
            self.apply_settings(&before, &volume)?;
            notes.extend((connections > 0).then(|| {
                format!("clients that have {} open keep it until they leave", order.name)
            }));
            return Ok(self.now(store.table(), |volume| volume.name == name, notes));
        }
        let live = self.exports.volume(name);
        self.exports.withdraw(name);
        if let Some(live) = &live {
            live.remove(true);
            if !live.wait_for_earlier(TIMEOUT) {
                live.remove(false);
                self.exports.serve(live, self.blocks);
                return Err(OrderError::Busy {
                    name: name.to_owned(),
                    requests: live.in_flight(),
                    patience: TIMEOUT,
                });
            }
        }
        if let Err(error) = store.change(&*self.disk, |table| table.remove(name)) {
            if let Some(live) = &live {
                live.remove(false);
                self.exports.serve(live, self.blocks);
            }
            return Err(error.into());
        }
        self.scans.forget_all(name);
        self.scans.set_target(name, None);
        tracing::info!(volume = name, "removed");
        self.set_shares(Some(&before), None)?;
        Ok(self.now(store.table(), |_| false, notes))
    }

    fn set_class(
        &self,
        order: &VolumeOrder,
        name: &str,
        class: VolumeClass,
    ) -> Result<VolumesNow, OrderError> {
        if order.size.is_some() || order.grow_by.is_some() {
            return Err(OrderError::ClassSize {
                export: order.name.clone(),
                volume: name.to_owned(),
            });
        }
        let mut store = self.store.lock();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
        after.change_class(name, class, Some(&order.settings))?;
        self.check_terms(store.table(), &after, &order.name)?;
        let mut notes = self.ignored_terms_note(&after, name);
        notes.extend(format_note(store.table(), &after));
        if !order.dry_run {
            let before =
                store.table().find(name).expect("a volume that can be changed is there").clone();
            let volume = store.change(&*self.disk, |table| {
                table.change_class(name, class, Some(&order.settings)).cloned()
            })?;
            self.apply_settings(&before, &volume)?;
        }
        Ok(self.now(&after, |volume| volume.name == name, notes))
    }

    /// Applies changed settings of a volume to clients and the scheduler.
    fn apply_settings(&self, before: &Volume, volume: &Volume) -> Result<(), OrderError> {
        let shares_set = self.set_shares(Some(before), Some(volume));
        if let Some(live) = self.exports.volume(&volume.name) {
            live.set(volume.settings.clone());
            self.exports.serve(&live, self.blocks);
        }
        shares_set
    }

    /// Sends the scheduler the changed terms of a served volume.
    fn set_shares(
        &self,
        before: Option<&Volume>,
        after: Option<&Volume>,
    ) -> Result<(), OrderError> {
        let changes = shares::changes(before, after, self.sector());
        let name = after.or(before).map_or("", |volume| volume.name.as_str());
        // The scheduler has no terms of a volume that is not served.
        if changes.is_empty()
            || (before.is_some() && after.is_some() && self.exports.volume(name).is_none())
        {
            return Ok(());
        }
        self.disk
            .change_shares(changes)
            .map_err(|error| OrderError::Shares { name: name.to_owned(), error })
    }

    /// Checks that the reservations and terms after a change are possible.
    fn check_terms(
        &self,
        before: &VolumeTable,
        after: &VolumeTable,
        name: &str,
    ) -> Result<(), OrderError> {
        after.check_reservations(before, name).inspect_err(|_| {
            self.exports.refusals.reservations.fetch_add(1, Ordering::Relaxed);
        })?;
        let (volume, _) = VolumeClass::of_export(name);
        let checked =
            after.find(volume).map_or(Ok(()), |volume| shares::check(volume, self.sector()));
        checked.map_err(OrderError::Terms)
    }

    /// A note about terms that the policy ignores.
    fn ignored_terms_note(&self, after: &VolumeTable, name: &str) -> Vec<String> {
        let promised = after
            .find(name)
            .is_some_and(|volume| !shares::changes(None, Some(volume), self.sector()).is_empty());
        let (_, enforces_shares) = self.disk.shares();
        let note = || {
            "the active policy ignores reserve, limit, weight and priority; headtime, which is \
                the default, and utilization honor them: `headtime set policy=headtime`, or serve \
                with --policy headtime"
                .to_owned()
        };
        (promised && !enforces_shares).then(note).into_iter().collect()
    }

    fn sector(&self) -> SectorSize {
        self.disk.shape().sector
    }

    fn now(
        &self,
        table: &VolumeTable,
        selected: impl Fn(&Volume) -> bool,
        notes: Vec<String>,
    ) -> VolumesNow {
        let relocation = self.relocation();
        let of = |volume: &Volume| VolumeNow {
            relocation: relocation.clone().filter(|last| last.volume == volume.name),
            size: table.size_of(volume),
            classes: volume
                .settings
                .classes()
                .map(|(class, settings)| self.class_now(class.export(&volume.name), settings))
                .collect(),
            scans: self.scans.unfinished(&volume.name),
            volume: volume.clone(),
        };
        let volumes = table.volumes().iter().filter(|volume| selected(volume)).map(of).collect();
        let free_share = table.reservable_rest();
        VolumesNow { volumes, free: table.free(), free_share, notes }
    }

    fn class_now(&self, export: String, settings: ClassSettings) -> ClassNow {
        ClassNow {
            connections: self.export(&export).map(|export| export.stats.connections()),
            export,
            settings,
        }
    }

    fn export(&self, name: &str) -> Option<Arc<Export>> {
        self.exports.find(name, |_| true).ok()
    }

    /// The number of clients of all classes of a volume.
    fn connections(&self, name: &str) -> u64 {
        VolumeClass::ALL
            .into_iter()
            .filter_map(|class| self.export(&class.export(name)))
            .map(|export| export.stats.connections())
            .sum()
    }
}

fn opened<'s>(
    store: &'s mut MutexGuard<'_, Option<VolumeStore>>,
) -> Result<&'s mut VolumeStore, OrderError> {
    store.as_mut().ok_or(OrderError::WholeDrive)
}

/// The volume and class that a command names.
fn volume_and_class(order: &VolumeOrder) -> Result<(&str, VolumeClass), OrderError> {
    let (volume, class) = VolumeClass::of_export(&order.name);
    Ok((
        volume,
        class.ok_or_else(|| OrderError::UnknownClass {
            export: order.name.clone(),
            volume: volume.to_owned(),
        })?,
    ))
}

/// Notes about a volume that gets further extents.
fn extents_notes(before: &VolumeTable, after: &VolumeTable, name: &str) -> Vec<String> {
    let count = |table: &VolumeTable| table.find(name).map_or(1, |of| of.extents.as_slice().len());
    let mut notes = Vec::new();
    if count(after) > count(before) {
        let extents = count(after);
        notes.push(format!("{name} has {extents} extents, because no free one is long enough"));
    }
    notes.extend(format_note(before, after));
    notes
}

/// The note about a change that earlier versions of the program cannot read.
fn format_note(before: &VolumeTable, after: &VolumeTable) -> Option<String> {
    let version = slot::version_of(after);
    let what = if version == slot::FORMAT_VERSION { "a weight" } else { "several extents" };
    (version > slot::version_of(before)).then(|| {
        format!("earlier versions of headtime refuse the drive as long as a volume has {what}")
    })
}

fn in_use(name: &str, connections: u64, scans: &[TaskKind]) -> OrderError {
    let clients = (connections > 0)
        .then(|| format!("{connections} client{}", if connections == 1 { "" } else { "s" }));
    let by: Vec<String> =
        clients.into_iter().chain(scans.iter().map(|task| format!("a {task}"))).collect();
    OrderError::InUse { name: name.to_owned(), by: by.join(" and ") }
}

impl From<VolumeError> for OrderError {
    fn from(error: VolumeError) -> Self {
        Self::Store(error.into())
    }
}

impl OrderError {
    /// Returns whether the command was invalid, as opposed to having failed.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        let failed = matches!(
            self,
            Self::Store(
                StoreError::Io { .. }
                    | StoreError::NotPutBack { .. }
                    | StoreError::Open(_)
                    | StoreError::Random(_)
            )
        );
        let own = matches!(
            self,
            Self::Busy { .. }
                | Self::Shares { .. }
                | Self::StillRelocating { .. }
                | Self::RelocationFile { .. }
                | Self::Thread { .. }
        );
        !failed && !own
    }
}
