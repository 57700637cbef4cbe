//! The commands that relocate volumes. The relocation that runs is kept in a file, so that it
//! continues after a restart.

use std::sync::Arc;

use headtime_units::Share;

use super::{OrderError, TIMEOUT, Volumes, VolumesNow, extents_notes, opened};
use crate::volumes::relocation::{RelocateOrder, Relocation, RelocationStatus};
use crate::volumes::relocator::{RelocationJob, Relocator};
use crate::volumes::settings::VolumeClass;
use crate::volumes::store::VolumeStore;
use crate::volumes::table::Volume;

impl Volumes {
    /// Starts to move sectors of a volume to a free extent, in the background. The volume has them
    /// until the copy is complete and durable.
    pub fn relocate(self: &Arc<Self>, order: &RelocateOrder) -> Result<VolumesNow, OrderError> {
        let (name, force) = (order.name.as_str(), order.force);
        let (volume, _) = VolumeClass::of_export(name);
        if volume != name {
            let (export, volume) = (name.to_owned(), volume.to_owned());
            return Err(OrderError::ClassRelocation { export, volume });
        }
        let mut store = self.store.lock();
        let store = opened(&mut store)?;
        self.check_not_relocating(|_| true)?;
        let relocation = store.table().plan_relocation(order)?;
        store.check_writable()?;
        let mut after = store.table().clone();
        after.relocate(&relocation)?;
        let mut notes = vec![relocation.describe(self.sector())];
        notes.extend(extents_notes(store.table(), &after, name));
        if force || self.scans.unfinished(name).is_empty() {
            notes.extend(self.scans.notes_on_change(name, "it is relocated"));
        } else {
            notes.push(format!(
                "{name} keeps its earlier sectors until its scans have ended, and discards their \
                    state then; --force ends them"
            ));
        }
        if self.relocation_file.is_none() {
            notes.push(
                "this server keeps no state, so the relocation does not continue after a restart"
                    .to_owned(),
            );
        }
        if order.dry_run {
            return Ok(self.now(&after, |volume| volume.name == name, notes));
        }
        if let Some(file) = &self.relocation_file {
            let written = file.write(&relocation.to_store(force, order.max_impact));
            written.map_err(|error| {
                // It may be complete and not durable.
                self.forget_relocation();
                let (name, path) = (name.to_owned(), file.path().to_owned());
                OrderError::RelocationFile { name, path, error }
            })?;
        }
        let job = RelocationJob::new(relocation, force, order.max_impact);
        self.launch_relocation(store, job).inspect_err(|_| self.forget_relocation())?;
        tracing::info!(volume = name, to = %order.to, "relocation started");
        Ok(self.now(store.table(), |volume| volume.name == name, notes))
    }

    fn launch_relocation(
        self: &Arc<Self>,
        store: &mut VolumeStore,
        job: Arc<RelocationJob>,
    ) -> Result<(), OrderError> {
        store.reserve_sectors(vec![job.relocation.destination]);
        let (volumes, handle) = (Arc::clone(self), self.handle.clone());
        let relocator = Relocator { volumes, handle, job: Arc::clone(&job) };
        let thread = std::thread::Builder::new().name("headtime-move".to_owned());
        if let Err(error) = thread.spawn(move || relocator.run()) {
            store.reserve_sectors(Vec::new());
            return Err(OrderError::Thread { name: job.relocation.name.clone(), error });
        }
        *self.relocation.lock() = Some(job);
        Ok(())
    }

    /// Continues the relocation of an earlier server. One that cannot continue is reported as
    /// failed, and is over.
    pub(crate) fn resume_relocation(self: &Arc<Self>) {
        let Some(file) = &self.relocation_file else { return };
        let path = file.path().display();
        let stored = match file.read() {
            Ok(None) => return,
            Ok(Some(stored)) => stored,
            Err(fault) => {
                tracing::warn!(
                    "a relocation does not continue: {path}: {fault}; restore the file, or repeat \
                        the command, which replaces it"
                );
                return;
            }
        };
        let mut store = self.store.lock();
        let Some(store) = store.as_mut() else { return };
        let name = &stored.name;
        if let Err(error) = store.check_writable() {
            tracing::warn!("the relocation of {name} does not continue: {error}");
            return;
        }
        let relocation = Relocation::of_stored(&stored);
        let is_same =
            |volume: &Volume| volume.id == relocation.volume && volume.extents == relocation.before;
        if !store.table().volumes().iter().any(is_same) {
            // It was complete, or the volume was changed by a server without this state.
            self.forget_relocation();
            return;
        }
        let fits = store.table().check_destination(&relocation);
        let max_impact = stored.max_impact_billionths.and_then(Share::from_billionths);
        let job = RelocationJob::new(relocation, stored.force, max_impact);
        let begun = match fits {
            Ok(()) => self.launch_relocation(store, Arc::clone(&job)),
            Err(error) => Err(error.into()),
        };
        match begun {
            Ok(()) => tracing::info!(volume = name, "relocation continues, from its start"),
            Err(error) => {
                self.forget_relocation();
                job.fail(error.to_string());
                *self.relocation.lock() = Some(job);
            }
        }
    }

    /// Forgets the relocation: it does not continue after a restart.
    pub(in crate::volumes) fn forget_relocation(&self) {
        let Some(file) = &self.relocation_file else { return };
        if let Err(error) = file.remove() {
            tracing::warn!(
                "{} cannot be removed: {error}; remove it, so that the relocation does not begin \
                    again at the next start",
                file.path().display()
            );
        }
    }

    /// Ends the relocation of a volume. The volume keeps its earlier sectors, unless it has got the
    /// new ones meanwhile.
    pub fn cancel_relocation(&self, name: &str) -> Result<VolumesNow, OrderError> {
        self.end_relocation(name)?;
        self.show(name)
    }

    pub(super) fn end_relocation(&self, name: &str) -> Result<(), OrderError> {
        let is_of = |job: &Arc<RelocationJob>| job.relocation.name == name && !job.is_over();
        let job = self.relocation.lock().clone().filter(is_of);
        let job = job.ok_or_else(|| OrderError::NotRelocating { name: name.to_owned() })?;
        if job.cancel(TIMEOUT) {
            return Ok(());
        }
        Err(OrderError::StillRelocating { name: name.to_owned(), patience: TIMEOUT })
    }

    /// The last relocation since the server started.
    pub(crate) fn relocation(&self) -> Option<RelocationStatus> {
        self.relocation.lock().as_ref().map(|job| job.status(self.sector()))
    }

    /// Ends a relocation. Nothing may be written to the drive afterwards.
    pub(crate) fn close(&self) {
        let job = self.relocation.lock().clone().filter(|job| !job.is_over());
        let Some(job) = job else { return };
        let name = &job.relocation.name;
        if self.relocation_file.is_some() {
            tracing::info!("the relocation of {name} continues when the server starts again");
        } else {
            tracing::warn!(
                "the relocation of {name} ends with the server, before {name} has moved"
            );
        }
        if !job.close(TIMEOUT) {
            tracing::warn!("the relocation of {name} does not end within {TIMEOUT:?}");
        }
    }

    /// Checks that no relocation runs of a volume that `of` selects.
    pub(super) fn check_not_relocating(&self, of: impl Fn(&str) -> bool) -> Result<(), OrderError> {
        let runs = |job: &&Arc<RelocationJob>| of(&job.relocation.name) && !job.is_over();
        match self.relocation.lock().as_ref().filter(runs) {
            Some(job) => Err(OrderError::Relocating { name: job.relocation.name.clone() }),
            None => Ok(()),
        }
    }
}
