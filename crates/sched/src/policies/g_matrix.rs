#![doc = include_str!("../../../../docs/policies/g-matrix.md")]

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use crate::command::{Finished, Outcome};
use crate::policies::pairs::Pairs;
use crate::policy::{Choice, Policy, View};
use crate::positioning::{PairCost, Target};
use crate::queue::{Queued, Ticket};
use crate::request::RequestId;
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tour::{ChainExcess, Costs, LOOKAHEAD_MAX, Lookahead, Margins};
use crate::tunables::LatencyMatrixUse;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "g-matrix",
    summary: "earliest deadline first that tries every order of the first k: least overtime, then \
        the shortest path",
    source: "P1 section III-C (G-MATRIX)",
    oracle: false,
    parameters: &[LOOKAHEAD_K, WORST_PERCENT, MISS_TARGET],
    build: |parameters| Box::new(GMatrix::new(parameters)),
};

const LOOKAHEAD_K: Parameter = Parameter {
    name: "lookahead_k",
    summary: "deadlines considered; all orders of them are tried",
    default: 4.0,
    min: 1.0,
    max: LOOKAHEAD_MAX as f64,
    whole: true,
    origin: "P1 section III-C: more brought nothing",
};

const WORST_PERCENT: Parameter = Parameter {
    name: "worst_percent",
    summary: "position between expected and worst time that overtime is computed from, in per cent",
    default: 0.0,
    min: 0.0,
    max: 100.0,
    whole: false,
    origin: "this project; P1 keeps one time of each pair, the worst seen",
};

const MISS_TARGET: Parameter = Parameter {
    name: "miss_target",
    summary: "share of chains of accesses that may exceed a margin kept before deadlines, fitted \
        while running; 1: no margin",
    default: 1.0,
    min: 1e-6,
    max: 1.0,
    whole: false,
    origin: "1 is P1's; below 1 this project",
};

/// A command sent so long after the last one ended follows straight after it (guess: as a matrix
/// has it).
const BACK_TO_BACK: Nanos = Nanos::from_us(200);
/// The number of accesses after which margins are computed again (chosen: a margin depends on some
/// hundreds at least).
const FITTED_AFTER: u32 = 32;
/// The maximum number of predictions stored for unfinished requests: more than drives hold, those
/// cancelled at the drive included.
const PREDICTED_MAX: usize = 256;

struct GMatrix {
    lookahead: Lookahead,
    worst_percent: f64,
    safeguard: Option<Safeguard>,
}

impl GMatrix {
    fn new(parameters: &Parameters) -> Self {
        let lookahead = Lookahead::new(parameters.get(LOOKAHEAD_K.name) as usize)
            .expect("the bounds of the parameter are those of looking ahead");
        let target = parameters.get(MISS_TARGET.name);
        let safeguard = (target < MISS_TARGET.max).then(|| Safeguard::new(target));
        Self { lookahead, worst_percent: parameters.get(WORST_PERCENT.name), safeguard }
    }

    fn first(&mut self, view: &View<'_>) -> Option<Ticket> {
        let ignores = view.tunables.latency_matrix == LatencyMatrixUse::Ignore;
        let lookahead = if ignores {
            Lookahead::new(1)?
        } else {
            view.tunables.lookahead_k.unwrap_or(self.lookahead)
        };
        let mut requests: Few<&Queued> = view.queue.by_deadline().take(lookahead.k()).collect();
        let targets: Few<Target> = requests.iter().map(|queued| queued.target).collect();
        let times = Times { view, targets: &targets, worst_percent: self.worst_percent };
        let first = if requests.len() <= 1 {
            0
        } else {
            let deadlines: Few<Instant> =
                requests.iter().map(|queued| queued.deadline.unwrap_or(Instant::NEVER)).collect();
            let margins =
                self.safeguard.as_ref().map_or([0; LOOKAHEAD_MAX], |safeguard| safeguard.margins);
            lookahead
                .best_order_by(
                    &Pairs::new(view, &targets),
                    &times,
                    &margins,
                    &deadlines,
                    view.ready_at(),
                )?
                .first
        };
        let chosen = (first < requests.len()).then(|| requests.swap_remove(first))?;
        if let Some(safeguard) = &mut self.safeguard {
            let ready_at = view.outstanding.is_empty().then(|| view.ready_at());
            safeguard.predict(chosen.request.id, ready_at, times.first(first));
        }
        Some(chosen.ticket)
    }
}

impl Policy for GMatrix {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(self.first(view))
    }

    fn belief_changed(&mut self) {
        self.safeguard = self.safeguard.as_ref().map(|safeguard| Safeguard::new(safeguard.target));
    }

    fn finished(&mut self, finished: &Finished) {
        if let Some(safeguard) = &mut self.safeguard {
            safeguard.finished(finished);
        }
    }
}

/// The margins against underestimated times.
struct Safeguard {
    target: f64,
    excess: ChainExcess,
    margins: Margins,
    /// Accesses counted since the margins were computed.
    since_fitted: u32,
    /// Of those chosen that have not ended, in the order in which they were chosen.
    predicted: VecDeque<Predicted>,
    last_finished: Instant,
}

/// The prediction for a request when it was chosen.
struct Predicted {
    request: RequestId,
    /// The start of the prediction, if the drive was idle.
    ready_at: Option<Instant>,
    time: Nanos,
}

impl Safeguard {
    fn new(target: f64) -> Self {
        let predicted = VecDeque::new();
        Self {
            target,
            excess: ChainExcess::default(),
            margins: [0; LOOKAHEAD_MAX],
            since_fitted: 0,
            predicted,
            last_finished: Instant::ORIGIN,
        }
    }

    /// `request` was chosen, and takes `time` from `ready_at` on, or from the end of the command
    /// before it.
    fn predict(&mut self, request: RequestId, ready_at: Option<Instant>, time: Nanos) {
        // A request that is chosen again was not sent.
        self.predicted.retain(|predicted| predicted.request != request);
        if self.predicted.len() == PREDICTED_MAX {
            self.predicted.pop_front();
        }
        self.predicted.push_back(Predicted { request, ready_at, time });
    }

    fn finished(&mut self, finished: &Finished) {
        let last_finished = self.last_finished;
        self.last_finished = last_finished.max(finished.finished);
        let Some(place) =
            self.predicted.iter().position(|predicted| predicted.request == finished.request.id)
        else {
            return;
        };
        let Some(predicted) = self.predicted.remove(place) else { return };
        let begun = predicted.ready_at.unwrap_or(last_finished);
        if finished.outcome != Outcome::Success
            || begun.saturating_since(last_finished) > BACK_TO_BACK
        {
            return self.excess.interrupt();
        }
        self.excess.observe(finished.finished.signed_since(begun + predicted.time));
        self.since_fitted += 1;
        if self.since_fitted >= FITTED_AFTER {
            (self.margins, self.since_fitted) = (self.excess.margins(self.target), 0);
        }
    }
}

/// A list of the requests considered.
type Few<T> = SmallVec<[T; LOOKAHEAD_MAX]>;

/// Times that overtime is computed from.
struct Times<'a> {
    view: &'a View<'a>,
    targets: &'a [Target],
    worst_percent: f64,
}

impl Times<'_> {
    fn of(&self, pair: PairCost) -> Nanos {
        let PairCost { expected, worst, .. } = pair;
        let further = worst.saturating_sub(expected).as_ns() as f64 * self.worst_percent / 100.0;
        expected + Nanos::from_ns(further as u64)
    }
}

impl Costs for Times<'_> {
    fn first(&self, to: usize) -> Nanos {
        self.of(self.view.next(&self.targets[to]))
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        self.of(self.view.pair(&self.targets[from], &self.targets[to]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ClassId, Op, Request, StreamId, VolumeId};
    use headtime_units::Extent;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_ms(ms)
    }

    fn finished(id: u64, at_ms: u64, outcome: Outcome) -> Finished {
        let (extent, class, stream) = (Extent::from_numbers(0, 8), ClassId(0), StreamId(0));
        let request = Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class,
            stream,
            op: Op::Read,
            extent,
            fua: false,
            deadline: None,
        };
        Finished {
            request,
            submitted: at(0),
            dispatched: at(0),
            finished: at(at_ms),
            disk_time: Nanos::ZERO,
            other_arms: Nanos::ZERO,
            overlapped: Nanos::ZERO,
            forced: false,
            outcome,
        }
    }

    /// Serves accesses predicted to take 5 ms each; returns the end of the last.
    fn serve(
        safeguard: &mut Safeguard,
        from_ms: u64,
        took_ms: impl IntoIterator<Item = u64>,
    ) -> u64 {
        let mut now = from_ms;
        for (id, took) in took_ms.into_iter().enumerate() {
            safeguard.predict(RequestId(id as u64), Some(at(now)), Nanos::from_ms(5));
            now += took;
            safeguard.finished(&finished(id as u64, now, Outcome::Success));
        }
        now
    }

    #[test]
    fn margins_are_what_chains_took_longer_than_predicted() {
        let mut safeguard = Safeguard::new(0.01);
        // One of 300 is retried; the very first has no predecessor and is not counted.
        serve(&mut safeguard, 1, (0..3_000).map(|access| if access % 300 == 299 { 11 } else { 5 }));
        let retry = Nanos::from_ms(6).as_ns() as i64;
        let margins = [0, 0, 0, retry, retry, retry, retry, retry];
        assert_eq!(
            safeguard.margins, margins,
            "no more than one in 100 chains of three has a retry, of four one in 75"
        );
        assert!(safeguard.predicted.is_empty());
    }

    #[test]
    fn after_another_command_time_counts_from_its_end() {
        let mut safeguard = Safeguard::new(0.5);
        safeguard.last_finished = at(100);
        safeguard.predict(RequestId(1), Some(at(100)), Nanos::from_ms(5));
        safeguard.predict(RequestId(2), None, Nanos::from_ms(5));
        // The first is 3 ms late and takes the second along, which itself takes 1 ms longer.
        safeguard.finished(&finished(1, 108, Outcome::Success));
        safeguard.finished(&finished(2, 114, Outcome::Success));
        let ms = |ms: i64| ms * 1_000_000;
        assert_eq!(safeguard.excess.margins(1e-6)[..3], [ms(3), ms(4), 0]);
    }

    #[test]
    fn idleness_errors_and_strangers_are_not_counted() {
        let mut safeguard = Safeguard::new(0.01);
        let now = serve(&mut safeguard, 1, [5, 5, 5]);
        // A second later the platter is at any angle; then a failed request, and one chosen by
        // another policy.
        serve(&mut safeguard, now + 1_000, [30]);
        safeguard.predict(RequestId(7), Some(safeguard.last_finished), Nanos::from_ms(5));
        safeguard.finished(&finished(7, now + 2_000, Outcome::Failed(5)));
        safeguard.finished(&finished(8, now + 2_001, Outcome::Success));
        assert_eq!(safeguard.excess.margins(1e-6), [0; LOOKAHEAD_MAX]);
        // Those cancelled at the drive never end; chosen twice is chosen once.
        (0..10_000).for_each(|id| safeguard.predict(RequestId(id / 2), None, Nanos::ZERO));
        assert_eq!(safeguard.predicted.len(), PREDICTED_MAX);
    }
}
