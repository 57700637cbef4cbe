//! The volumes of a running server: made, changed, taken away, listed. Every order is carried out
//! wholly or not at all, and is durable before it is answered.
//!
//! An order is checked against the table and against what is reserved first; `dry_run` ends there.
//! Then, where the volume becomes less, the clients' side: nothing more is let in that the order
//! forbids, and what was let in before is waited for. Then the table on the drive, which is where
//! the order happens or not: a crash leaves the table before or after it ([`super::Metadata`]).
//! Last the clients' side where the volume becomes more, and what the scheduler knows of shares. An
//! order that fails on the way puts back what was done for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headtime_io::{ChangeSharesError, SlowRequest};
use headtime_sched::ShareRefusal;
use headtime_tasks::TaskKind;
use headtime_units::{ByteSize, SectorSize, Share};

use super::errors::VolumeError;
use super::settings::{ClassSettings, SettingsChange, VolumeClass};
use super::store::{StoreError, VolumeStore};
use super::table::{Volume, VolumeSpec, VolumeTable};
use super::{FreeSpace, LiveVolume, shares};
use crate::disk::Disk;
use crate::export::{Blocks, Export, Exports};
use crate::scans::Scans;

/// The volumes of a server, to be changed while it serves. Any thread may hold it; orders are
/// carried out one after the other.
pub struct Volumes {
    disk: Arc<dyn Disk>,
    exports: Arc<Exports>,
    scans: Arc<Scans>,
    blocks: Blocks,
    /// Those that the configuration names, and so will name at the next start.
    configured: Vec<String>,
    /// `None` where the whole drive is served.
    store: Mutex<Option<VolumeStore>>,
}

/// What is to be done with a volume, or with one of its classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOrder {
    /// The volume's name; with `@` and a class behind it, that class.
    pub name: String,
    /// Its size.
    pub size: Option<ByteSize>,
    /// What of its settings is to be otherwise.
    pub settings: SettingsChange,
    /// Whether the end of a volume that shrinks may be lost.
    pub cut_data: bool,
    /// Whether it may be taken from clients and scans that use it.
    pub force: bool,
    /// Whether it is only to be found out what would come of it.
    pub dry_run: bool,
}

/// What volumes there are, or would be.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumesNow {
    /// The volumes that were asked about or changed.
    pub volumes: Vec<VolumeNow>,
    /// What is not allocated.
    pub free: FreeSpace,
    /// What of the drive's time may still be reserved.
    pub free_share: Share,
    /// What else there is to be said.
    pub notes: Vec<String>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeNow {
    /// As it stands in the table.
    pub volume: Volume,
    /// Its size.
    pub size: ByteSize,
    /// Each of its classes.
    pub classes: Vec<ClassNow>,
    /// Scans that are not over.
    pub scans: Vec<TaskKind>,
}

/// One class of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassNow {
    /// Its export.
    pub export: String,
    /// What it is promised and may not exceed.
    pub settings: ClassSettings,
    /// Clients that have it open; `None` for a volume that is not served.
    pub connections: Option<u64>,
}

/// Why an order was not carried out. Nothing has changed, unless the text says so.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The table does not allow it, or cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no table.
    #[error(
        "the whole drive is served as one export, so it has no volumes; serve it with `headtime \
            serve`"
    )]
    WholeDrive,
    /// No such class.
    #[error(
        "`{export}`: a volume has the classes realtime and bulk; write {volume}@realtime or \
            {volume}@bulk"
    )]
    UnknownClass {
        /// The name as given.
        export: String,
        /// The volume.
        volume: String,
    },
    /// The volume has no such class.
    #[error("volume {volume} has no class {class}; it has {has}")]
    NoClass {
        /// The volume.
        volume: String,
        /// The class.
        class: &'static str,
        /// Those that it has.
        has: String,
    },
    /// Something that a class has not.
    #[error("{export} is a class and shares the sectors of its volume; give a size to {volume}")]
    ClassSize {
        /// The class's export.
        export: String,
        /// The volume.
        volume: String,
    },
    /// The scheduler does not take it.
    #[error("{name}: {refusal}")]
    Terms {
        /// The volume, or class.
        name: String,
        /// Why.
        refusal: ShareRefusal,
    },
    /// It stands on the drive, and the scheduler could not be told.
    #[error(
        "volume {name} is changed on the drive, but the scheduler was not told: {error}; it goes \
            by the change after a restart"
    )]
    Shares {
        /// The volume.
        name: String,
        /// Why.
        error: ChangeSharesError,
    },
    /// Somebody uses it.
    #[error(
        "volume {name} is in use by {by}; stop them, or say so with `--force` (`force` at the \
            control socket), which takes it away from them"
    )]
    InUse {
        /// The volume.
        name: String,
        /// By whom.
        by: String,
    },
    /// What was under way did not end.
    #[error(
        "volume {name}: {requests} requests were still under way after {patience:?}; nothing was \
            changed. See to the drive and try again"
    )]
    Busy {
        /// The volume.
        name: String,
        /// How many.
        requests: u64,
        /// How long was waited.
        patience: Duration,
    },
}

/// How long requests under way are waited for: longer than a healthy drive takes for the deepest
/// queue of one connection.
const PATIENCE: Duration = Duration::from_secs(20);

impl Volumes {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        exports: Arc<Exports>,
        scans: Arc<Scans>,
        blocks: Blocks,
        configured: Vec<String>,
        store: Option<VolumeStore>,
    ) -> Self {
        Self { disk, exports, scans, blocks, configured, store: Mutex::new(store) }
    }

    /// All volumes on the drive, by address; those that are not served among them.
    ///
    /// # Errors
    /// [`OrderError::WholeDrive`].
    pub fn list(&self) -> Result<VolumesNow, OrderError> {
        let mut store = self.store();
        Ok(self.now(opened(&mut store)?.table(), |_| true, Vec::new()))
    }

    /// One volume.
    ///
    /// # Errors
    /// [`OrderError::WholeDrive`], and [`VolumeError::Unknown`].
    pub fn show(&self, name: &str) -> Result<VolumesNow, OrderError> {
        let mut store = self.store();
        let table = opened(&mut store)?.table();
        let (name, _) = VolumeClass::of_export(name);
        table.clone().remove(name)?;
        Ok(self.now(table, |volume| volume.name == name, Vec::new()))
    }

    /// The last requests that were slow or missed their deadline.
    pub(crate) fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        self.disk.slow_requests()
    }

    /// Every class of every volume on the drive, with its export's name.
    pub(crate) fn export_names(&self) -> Vec<(Volume, VolumeClass, String)> {
        let mut store = self.store();
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

    /// Bytes of a sector of the drive.
    pub(crate) fn sector_bytes(&self) -> u32 {
        self.sector().bytes()
    }

    /// Makes a volume and serves it at once, or gives a volume a class.
    ///
    /// # Errors
    /// See [`OrderError`].
    pub fn add(&self, order: &VolumeOrder) -> Result<VolumesNow, OrderError> {
        let (name, class) = parts(order)?;
        if class != VolumeClass::Ordinary {
            return self.set_class(order, name, class);
        }
        let settings = SettingsChange { always_served: Some(true), ..order.settings.clone() };
        let wanted = VolumeSpec { name: order.name.clone(), size: order.size, settings };
        let mut store = self.store();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
        after.add(&wanted)?;
        self.may_promise(store.table(), &after, &order.name)?;
        let notes = self.without_effect(&after, name);
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        let volume = store.change(&*self.disk, |table| table.add(&wanted).cloned())?;
        // A crash behind a removal may have left what was remembered of another of this name.
        self.scans.forget_all(name);
        self.scans.set_target(name, Some(volume.extent));
        // Before it can be opened, so that its first request goes by its terms.
        let told = self.tell_shares(None, Some(&volume));
        self.exports.serve(&LiveVolume::new(&volume, self.sector()), self.blocks);
        told?;
        tracing::info!(volume = name, "added");
        Ok(self.now(store.table(), |volume| volume.name == name, notes))
    }

    /// Changes a volume's settings and size, or a class's settings; those that are served notice at
    /// once.
    ///
    /// Clients that have it open go on seeing the size that it had when they opened it, because NBD
    /// has no other way; what lies beyond its end is refused.
    ///
    /// # Errors
    /// See [`OrderError`].
    pub fn set(&self, order: &VolumeOrder) -> Result<VolumesNow, OrderError> {
        let (name, class) = parts(order)?;
        if class != VolumeClass::Ordinary {
            return self.set_class(order, name, class);
        }
        let wanted = VolumeSpec {
            name: order.name.clone(),
            size: order.size,
            settings: order.settings.clone(),
        };
        let mut store = self.store();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
        let changed = after.change(&wanted, order.cut_data)?.clone();
        let before =
            store.table().find(name).expect("a volume that can be changed is there").clone();
        self.may_promise(store.table(), &after, &order.name)?;
        let resized = changed.extent != before.extent;
        let scans = self.scans.at_work(name);
        if resized && !scans.is_empty() && !order.force {
            return Err(in_use(name, 0, &scans));
        }
        let mut notes = self.without_effect(&after, name);
        if resized && self.connections(name) > 0 {
            notes.push(format!(
                "clients that have {name} open see its new size when they open it again"
            ));
        }
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        let live = self.exports.volume(name);
        let shrinks = changed.extent.len < before.extent.len;
        if let Some(live) = live.as_ref().filter(|_| shrinks) {
            live.resize(changed.extent.len);
            if !live.wait_for_earlier(PATIENCE) {
                live.resize(before.extent.len);
                return Err(OrderError::Busy {
                    name: name.to_owned(),
                    requests: live.in_flight(),
                    patience: PATIENCE,
                });
            }
        }
        let done =
            store.change(&*self.disk, |table| table.change(&wanted, order.cut_data).cloned());
        if resized && done.is_ok() {
            // What was remembered of the volume as it was says nothing of it as it is.
            self.scans.forget_all(name);
        }
        let settled = done.as_ref().unwrap_or(&before);
        self.scans.set_target(name, Some(settled.extent));
        if let Some(live) = live {
            live.resize(settled.extent.len);
            live.set(settled.settings.clone());
            self.exports.serve(&live, self.blocks);
        }
        let changed = done?;
        self.tell_shares(Some(&before), Some(&changed))?;
        Ok(self.now(store.table(), |volume| volume.name == name, notes))
    }

    /// Takes a volume, or a class of one, away. Its sectors are free for others when this returns,
    /// and hold what they held.
    ///
    /// # Errors
    /// See [`OrderError`].
    pub fn remove(&self, order: &VolumeOrder) -> Result<VolumesNow, OrderError> {
        let (name, class) = parts(order)?;
        let mut store = self.store();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
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
            VolumeClass::Ordinary => (self.connections(name), self.scans.at_work(name)),
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
            && self.configured.iter().any(|configured| configured == name)
        {
            notes.push(format!(
                "the configuration names {name}: take it out there too, or the next \
                start makes it again, with nothing in it"
            ));
        }
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        if class != VolumeClass::Ordinary {
            let volume = store
                .change(&*self.disk, |table| table.change_class(name, class, None).cloned())?;
            self.settle(&before, &volume)?;
            notes.extend((connections > 0).then(|| {
                format!("clients that have {} open keep it until they leave", order.name)
            }));
            return Ok(self.now(store.table(), |volume| volume.name == name, notes));
        }
        let live = self.exports.volume(name);
        self.exports.withdraw(name);
        if let Some(live) = &live {
            live.remove(true);
            if !live.wait_for_earlier(PATIENCE) {
                live.remove(false);
                self.exports.serve(live, self.blocks);
                return Err(OrderError::Busy {
                    name: name.to_owned(),
                    requests: live.in_flight(),
                    patience: PATIENCE,
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
        self.tell_shares(Some(&before), None)?;
        Ok(self.now(store.table(), |_| false, notes))
    }

    fn set_class(
        &self,
        order: &VolumeOrder,
        name: &str,
        class: VolumeClass,
    ) -> Result<VolumesNow, OrderError> {
        if order.size.is_some() {
            return Err(OrderError::ClassSize {
                export: order.name.clone(),
                volume: name.to_owned(),
            });
        }
        let mut store = self.store();
        let store = opened(&mut store)?;
        let mut after = store.table().clone();
        after.change_class(name, class, Some(&order.settings))?;
        self.may_promise(store.table(), &after, &order.name)?;
        let notes = self.without_effect(&after, name);
        if !order.dry_run {
            let before =
                store.table().find(name).expect("a volume that can be changed is there").clone();
            let volume = store.change(&*self.disk, |table| {
                table.change_class(name, class, Some(&order.settings)).cloned()
            })?;
            self.settle(&before, &volume)?;
        }
        Ok(self.now(&after, |volume| volume.name == name, notes))
    }

    /// Lets clients and the scheduler see the settings of a volume that changed in the table.
    fn settle(&self, before: &Volume, volume: &Volume) -> Result<(), OrderError> {
        let told = self.tell_shares(Some(before), Some(volume));
        if let Some(live) = self.exports.volume(&volume.name) {
            live.set(volume.settings.clone());
            self.exports.serve(&live, self.blocks);
        }
        told
    }

    /// Tells the scheduler what changed of a volume that is served.
    fn tell_shares(
        &self,
        before: Option<&Volume>,
        after: Option<&Volume>,
    ) -> Result<(), OrderError> {
        let changes = shares::changes(before, after, self.sector());
        let name = after.or(before).map_or("", |volume| volume.name.as_str());
        // One that is not served was never told of.
        if changes.is_empty()
            || (before.is_some() && after.is_some() && self.exports.volume(name).is_none())
        {
            return Ok(());
        }
        self.disk
            .change_shares(changes)
            .map_err(|error| OrderError::Shares { name: name.to_owned(), error })
    }

    /// Whether what is promised after a change can be kept.
    fn may_promise(
        &self,
        before: &VolumeTable,
        after: &VolumeTable,
        name: &str,
    ) -> Result<(), OrderError> {
        after.may_reserve(before, name)?;
        let (volume, _) = VolumeClass::of_export(name);
        let checked =
            after.find(volume).map_or(Ok(()), |volume| shares::check(volume, self.sector()));
        checked.map_err(|(name, refusal)| OrderError::Terms { name, refusal })
    }

    /// What is promised and nobody goes by.
    fn without_effect(&self, after: &VolumeTable, name: &str) -> Vec<String> {
        let promised = after
            .find(name)
            .is_some_and(|volume| !shares::changes(None, Some(volume), self.sector()).is_empty());
        let (_, goes_by_shares) = self.disk.shares();
        let note = || {
            "the policy at work does not go by reserve, limit and priority; headtime, which is the \
                default, and utilization do: `headtime set policy=headtime`, or serve with \
                --policy headtime"
                .to_owned()
        };
        (promised && !goes_by_shares).then(note).into_iter().collect()
    }

    fn sector(&self) -> SectorSize {
        self.disk.shape().sector
    }

    fn now(
        &self,
        table: &VolumeTable,
        meant: impl Fn(&Volume) -> bool,
        notes: Vec<String>,
    ) -> VolumesNow {
        let of = |volume: &Volume| VolumeNow {
            size: table.size_of(volume),
            classes: volume
                .settings
                .classes()
                .map(|(class, settings)| self.class_now(class.export(&volume.name), settings))
                .collect(),
            scans: self.scans.at_work(&volume.name),
            volume: volume.clone(),
        };
        let volumes = table.volumes().iter().filter(|volume| meant(volume)).map(of).collect();
        let free_share =
            u64::from(Share::WHOLE.as_billionths()).saturating_sub(table.reserved_billionths());
        VolumesNow {
            volumes,
            free: table.free(),
            free_share: Share::from_billionths(free_share as u32).unwrap_or(Share::NONE),
            notes,
        }
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

    /// Clients of all classes of a volume.
    fn connections(&self, name: &str) -> u64 {
        VolumeClass::ALL
            .into_iter()
            .filter_map(|class| self.export(&class.export(name)))
            .map(|export| export.stats.connections())
            .sum()
    }

    /// A thread that panicked in the middle of an order left a store that knows itself to be
    /// doubtful.
    fn store(&self) -> MutexGuard<'_, Option<VolumeStore>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn opened<'s>(
    store: &'s mut MutexGuard<'_, Option<VolumeStore>>,
) -> Result<&'s mut VolumeStore, OrderError> {
    store.as_mut().ok_or(OrderError::WholeDrive)
}

/// The volume and class of an order.
fn parts(order: &VolumeOrder) -> Result<(&str, VolumeClass), OrderError> {
    let (volume, class) = VolumeClass::of_export(&order.name);
    Ok((
        volume,
        class.ok_or_else(|| OrderError::UnknownClass {
            export: order.name.clone(),
            volume: volume.to_owned(),
        })?,
    ))
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
    /// Whether the order made no sense, rather than went wrong.
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
        !failed && !matches!(self, Self::Busy { .. } | Self::Shares { .. })
    }
}
