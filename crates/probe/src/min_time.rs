//! The minimum time from one completion to the next, bracketed by the revolution in which a sector
//! is reached.
//!
//! A sector passes at known times, a revolution apart. If its command is ready in time it is
//! reached the first time, otherwise a revolution later. So one trial bounds the minimum time `m`
//! by `r − T < m ≤ r`, where `r` is the time it took and `T` a revolution. The next trial uses the
//! sector that passes in the middle of the remaining interval.
//!
//! Worked example, T = 6 ms, m = 2.1 ms: the sector that passes after 2.0 ms takes 8.0 (so m >
//! 2.0); the one after 2.4 ms takes 2.4 (m ≤ 2.4); the one after 2.2 takes 2.2; then 2.1 and so on.
//! The noise of a completion moves a bound by as much; six or seven trials give about ten
//! microseconds.

use crate::session::{Attempt, Session};

/// The parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinTimeSearch {
    /// A revolution, ns.
    pub(crate) period_ns: f64,
    /// A first estimate of the minimum time, ns.
    pub(crate) guess_ns: f64,
    /// The width of the interval at which the search ends, ns.
    pub(crate) fine_ns: f64,
    /// The width, or contradiction, that is accepted after all trials, ns.
    pub(crate) coarse_ns: f64,
}

/// The most trials of one search.
const MAX_TRIALS: usize = 20;
/// The first step away from a bound, ns, and its growth factor.
const FIRST_STRIDE_NS: f64 = 60_000.0;
const GROWTH: f64 = 2.5;

/// The minimum time; none if a trial was not possible or trials contradict each other. `trial`
/// reads a sector that passes so long after a completion, and returns the time it took.
pub(crate) fn find(
    session: &mut Session,
    search: MinTimeSearch,
    mut trial: impl FnMut(&mut Session, f64) -> Attempt<Option<f64>>,
) -> Attempt<Option<f64>> {
    let MinTimeSearch { period_ns, guess_ns, fine_ns, coarse_ns } = search;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let (mut target_ns, mut stride) = (guess_ns, FIRST_STRIDE_NS);
    for _ in 0..MAX_TRIALS {
        let Some(took) = trial(session, target_ns)? else { return Ok(None) };
        (low, high) = (f64::max(low, took - period_ns), f64::min(high, took));
        if high < low {
            break;
        }
        if high - low < fine_ns {
            return Ok(Some((low + high) / 2.0));
        }
        target_ns = if high - low < 4.0 * stride {
            (low + high) / 2.0
        } else if took < target_ns + period_ns / 2.0 {
            // Reached: try earlier, in growing strides.
            (high - stride).max(low + (high - low) / 8.0)
        } else {
            (low + stride).min(high - (high - low) / 8.0)
        };
        stride *= GROWTH;
    }
    Ok(((high - low).abs() < coarse_ns).then_some((low + high) / 2.0))
}
