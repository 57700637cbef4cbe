//! The plot of `headtime validate`: both distributions of response times, and below them how often
//! predictions are how far off.

use headtime_sim::validate::Validation;
use headtime_units::Nanos;

use crate::chart::{self, Axis, Line, Plot, Spot, plain, sheet};

/// Heights at which the distributions are drawn; more cannot be seen.
const HEIGHTS: usize = 500;
/// Bars of the histogram, each a fifth of a millisecond wide at the most.
const BARS: usize = 80;
const SIZE: (f64, f64) = (900.0, 430.0);
const MARGIN: f64 = 24.0;
const BLUE: (u8, u8, u8) = (24, 98, 186);

/// The plot as an SVG file.
pub(super) fn draw(validation: &Validation, profile: &str, trace: &str) -> String {
    let recorded = sorted(validation.accesses().iter().map(|access| access.recorded.response));
    let predicted = sorted(validation.accesses().iter().map(|access| access.predicted.response));
    let errors: Vec<f64> =
        validation.accesses().iter().map(|access| access.error_ns() as f64 / 1e6).collect();
    let figures = validation.all();
    let title = format!(
        "{trace} on {profile}: demerit {:.3} ms, {:.1} % within 0.2 ms",
        figures.demerit_ms,
        figures.within_0_2_ms * 100.0
    );
    let period_ms = validation.period().as_ns_f64() / 1e6;
    let line = |place, name: &str, spots| Line {
        class: chart::class(place),
        name: name.to_string(),
        dashed: false,
        spots,
    };
    let lines = [
        line(0, "recorded", steps(&recorded).collect()),
        line(1, "simulated", steps(&predicted).collect()),
    ];
    // The slowest two in a thousand would squeeze the rest into a corner.
    let last = |sorted: &[f64]| sorted.get((sorted.len() - 1) * 998 / 1000).copied().unwrap_or(1.0);
    let right = last(&recorded).max(last(&predicted)).max(0.1) * 1.02;
    let x = Axis::linear("response time (ms)", 0.0, right);
    let mut above = Plot::new(x, Axis::linear("% of requests", 0.0, 100.0), SIZE, MARGIN);
    for line in &lines {
        above.line(line);
    }
    let below = histogram(&errors, period_ms);
    let plots = [(title.clone(), above), ("Errors of prediction".to_string(), below)];
    chart::file(&sheet(&plots, 1, &lines, &title))
}

fn histogram(errors: &[f64], turn_ms: f64) -> Plot {
    // A little more than a revolution either way shows all that rotation can do; the outer bars
    // hold what is further off.
    let reach = turn_ms * 1.25;
    let width = 2.0 * reach / BARS as f64;
    let mut counts = vec![0_usize; BARS];
    for error in errors {
        let bar = ((error + reach) / width).floor().max(0.0) as usize;
        counts[bar.min(BARS - 1)] += 1;
    }
    let share = |count: &usize| 100.0 * *count as f64 / errors.len().max(1) as f64;
    let x = Axis::linear(
        &format!(
            "simulated less recorded (ms); a revolution is {} ms; the outer bars hold the rest",
            plain(turn_ms)
        ),
        -reach,
        reach,
    );
    let y = Axis::from_zero("% of requests", counts.iter().map(share));
    let mut plot = Plot::new(x, y, SIZE, MARGIN);
    for (bar, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let left = bar as f64 * width - reach;
        plot.cell(BLUE, (left, 0.0), (left + width, share(count)));
    }
    plot
}

fn sorted(responses: impl Iterator<Item = Nanos>) -> Vec<f64> {
    let mut ms: Vec<f64> = responses.map(Nanos::as_ms_f64).collect();
    ms.sort_unstable_by(f64::total_cmp);
    ms
}

/// Points of the distribution: a response time and the percentage of requests that took no longer.
fn steps(sorted: &[f64]) -> impl Iterator<Item = Spot> + '_ {
    let count = sorted.len();
    (0..=HEIGHTS).filter_map(move |height| {
        let rank = (height * count).div_ceil(HEIGHTS).max(1);
        Some(Spot::plain((*sorted.get(rank - 1)?, 100.0 * rank as f64 / count as f64)))
    })
}
