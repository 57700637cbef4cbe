//! A policy that merges whole runs, for tests of commands that serve several requests.

use headtime_sched::{Choice, Policy, PolicyEntry, Queued, View};
use smallvec::SmallVec;

/// Sends the oldest request together with all that continue it.
struct MergeRuns;

/// The policy `merge-runs`.
pub static MERGE_RUNS: PolicyEntry = PolicyEntry {
    name: "merge-runs",
    summary: "",
    source: "",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(MergeRuns),
};

impl Policy for MergeRuns {
    fn name(&self) -> &'static str {
        MERGE_RUNS.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let Some(oldest) = view.queue.oldest() else { return Choice::Nothing };
        let mut tickets = SmallVec::from_slice(&[oldest.ticket]);
        let mut end = oldest.request.extent.end();
        let continues = |queued: &Queued, end| {
            queued.request.op == oldest.request.op && queued.request.extent.start == end
        };
        while let Some(next) =
            view.queue.from_lba(end).next().filter(|queued| continues(queued, end))
        {
            tickets.push(next.ticket);
            end = next.request.extent.end();
        }
        Choice::Send(tickets)
    }
}
