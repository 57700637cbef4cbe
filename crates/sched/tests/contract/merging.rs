//! A policy for tests only: it merges whatever it can into one command, as no policy of the table
//! does yet.

use headtime_sched::{Choice, Policy, Queued, View};

pub(crate) struct Merging {
    pub depth: usize,
}

impl Policy for Merging {
    fn name(&self) -> &'static str {
        "merging"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.depth
    }

    /// The oldest request, with everything of its operation that abuts or overlaps the run so far.
    fn choose(&mut self, view: &View<'_>) -> Choice {
        let Some(oldest) = view.queue.oldest() else { return Choice::Nothing };
        let mut run: Vec<&Queued> = vec![oldest];
        let (mut start, mut end) = (oldest.request.extent.start, oldest.request.extent.end());
        while let Some(next) = view.queue.by_arrival().find(|queued| {
            let extent = queued.request.extent;
            let fits = queued.request.op == oldest.request.op
                && extent.start <= end
                && extent.end() >= start;
            fits && run.iter().all(|one| one.ticket != queued.ticket)
        }) {
            start = start.min(next.request.extent.start);
            end = end.max(next.request.extent.end());
            run.push(next);
        }
        Choice::Send(run.iter().map(|queued| queued.ticket).collect())
    }
}
