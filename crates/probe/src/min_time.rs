//! The least time from one completion to the next, narrowed down by which turn was met.
//!
//! A sector comes round at times that are known, a turn apart. If a command for it is ready in time
//! it is met the first time, else a turn later: of the least time `m` one trial says that `r − T <
//! m ≤ r`, where `r` is what it took and `T` a turn. The next trial asks for the sector that passes
//! in the middle of what is left.
//!
//! Worked example, T = 6 ms, m = 2.1 ms: asked for what passes after 2.0 ms it takes 8.0 (so m >
//! 2.0); after 2.4 ms it takes 2.4 (m ≤ 2.4); after 2.2 it takes 2.2; after 2.1 and so on. Noise of
//! a completion moves a bound by as much; six or seven trials give some ten microseconds.

use crate::session::{Attempt, Session};

/// How a search goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinTimeSearch {
    /// A turn, ns.
    pub(crate) period_ns: f64,
    /// A first guess of the least time, ns.
    pub(crate) guess_ns: f64,
    /// When what is left is no wider, it is over, ns.
    pub(crate) fine_ns: f64,
    /// When trials are used up, or contradict each other by no more than this, what is left will
    /// do, ns.
    pub(crate) coarse_ns: f64,
}

/// Most trials of one search.
const MAX_TRIALS: usize = 20;
/// The first step away from a bound, ns, and by what it grows.
const FIRST_STRIDE_NS: f64 = 60_000.0;
const GROWTH: f64 = 2.5;

/// The least time; none when a trial was not possible or trials contradict each other. `trial` asks
/// for a sector that passes so long after a completion, and answers what it took.
pub(crate) fn find(
    session: &mut Session,
    search: MinTimeSearch,
    mut trial: impl FnMut(&mut Session, f64) -> Attempt<Option<f64>>,
) -> Attempt<Option<f64>> {
    let MinTimeSearch { period_ns, guess_ns, fine_ns, coarse_ns } = search;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let (mut wanted, mut stride) = (guess_ns, FIRST_STRIDE_NS);
    for _ in 0..MAX_TRIALS {
        let Some(took) = trial(session, wanted)? else { return Ok(None) };
        (low, high) = (f64::max(low, took - period_ns), f64::min(high, took));
        if high < low {
            break;
        }
        if high - low < fine_ns {
            return Ok(Some((low + high) / 2.0));
        }
        wanted = if high - low < 4.0 * stride {
            (low + high) / 2.0
        } else if took < wanted + period_ns / 2.0 {
            // Met: try earlier, in growing strides.
            (high - stride).max(low + (high - low) / 8.0)
        } else {
            (low + stride).min(high - (high - low) / 8.0)
        };
        stride *= GROWTH;
    }
    Ok(((high - low).abs() < coarse_ns).then_some((low + high) / 2.0))
}
