//! Checks that all lists of the scheduler agree, for tests.

use headtime_units::Instant;

use super::{Op, Queued, Scheduler, Ticket};

impl Scheduler {
    /// Checks the scheduler's own lists.
    ///
    /// # Panics
    /// When they do not agree: a fault of this module.
    pub fn self_check(&self) {
        self.queue.self_check();
        self.outstanding.self_check();
        self.arms.self_check(&self.queue, &self.outstanding, self.flushes.len());
        self.shares.self_check(
            &self.queue,
            self.flushes.len(),
            self.outstanding.iter().map(|command| command.requests.len()).sum(),
        );
        let at_drive = || self.outstanding.iter().flat_map(|command| command.requests.iter());
        let books = self.queue.len()
            + self.waiting.len()
            + self.own.len()
            + self.flushes.len()
            + at_drive().count();
        assert_eq!(books, self.tickets.len(), "a request was lost or is in two places");
        let on_sectors = self
            .outstanding
            .iter()
            .filter(|command| command.target.op != Op::Flush)
            .map(|command| command.requests.len());
        let entered =
            on_sectors.sum::<usize>() + self.queue.len() + self.waiting.len() + self.own.len();
        let jobs = self.fill.as_ref().map_or(0, |fill| fill.jobs.len());
        assert!(
            self.overlap.len().is_none_or(|len| len == entered + jobs),
            "the order of overlapping requests lost or kept one"
        );
        let changes = |queued: &Queued| queued.request.op.changes_sectors();
        let held_on_sectors = self.queue.by_arrival().chain(&self.own).chain(self.waiting.values());
        assert!(
            self.overlap.is_active() || !held_on_sectors.into_iter().any(changes),
            "a change is held, but no order of overlapping requests is kept"
        );
        assert!(
            self.outstanding.len() <= self.drive.queue_depth,
            "the drive holds more commands than it takes"
        );
        self.check_jobs();

        for ticket in &self.cancelled {
            assert!(
                at_drive().any(|queued| queued.ticket == *ticket),
                "ticket {} counts as cancelled at the drive but is not there",
                ticket.0
            );
        }
        let held = |ticket: &Ticket| {
            self.own
                .iter()
                .chain(&self.flushes)
                .chain(at_drive())
                .any(|queued| queued.ticket == *ticket)
        };
        assert!(
            self.charged_before.keys().all(held),
            "disk time is kept for a request that is over or has not been at the drive"
        );
        for (ticket, queued) in &self.waiting {
            assert!(
                !self.overlap.waits_for(*ticket).is_empty(),
                "ticket {} waits for no request",
                ticket.0
            );
            for earlier in self.overlap.waits_for(*ticket) {
                let due = |ticket: Option<Instant>| ticket.unwrap_or(Instant::NEVER);
                assert!(
                    due(self.deadline_of(*earlier)) <= due(queued.deadline),
                    "ticket {} did not hand its deadline on",
                    ticket.0
                );
            }
        }
    }

    /// Checks that jobs and the commands that read for them know of each other.
    fn check_jobs(&self) {
        let at_drive = |ticket: Ticket| {
            self.outstanding.iter().filter(|command| command.job == Some(ticket)).count()
        };
        let Some(fill) = &self.fill else {
            assert!(
                self.outstanding.iter().all(|command| command.job.is_none()),
                "a command reads for a scan that there never was"
            );
            return;
        };
        fill.self_check();
        for command in self.outstanding.iter() {
            assert_eq!(
                command.job.is_some(),
                command.background.is_some(),
                "command {} reads something for no job",
                command.command.0
            );
            assert!(
                command.job.is_none_or(|job| fill.jobs.contains_key(&job)),
                "command {} reads for a job that is over",
                command.command.0
            );
        }
        for (ticket, job) in &fill.jobs {
            assert_eq!(
                job.at_drive,
                at_drive(*ticket),
                "background job {} has lost a command",
                ticket.0
            );
            assert_eq!(
                job.waits,
                !self.overlap.waits_for(*ticket).is_empty(),
                "background job {} has a wrong waiting state",
                ticket.0
            );
        }
    }
}
