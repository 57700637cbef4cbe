//! The plot of `headtime validate`: both distributions of response times, and below them how often
//! predictions are how far off.

use headtime_sim::validate::Validation;
use headtime_units::Nanos;
use plotters::prelude::*;

use crate::report::plots::{Area, COLOURS, FAINT, FONT, TEXT, drawn, number};

/// Heights at which the distributions are drawn; more cannot be seen.
const HEIGHTS: usize = 500;
/// Bars of the histogram, each a fifth of a millisecond wide at the most.
const BARS: i32 = 80;

/// The plot as an SVG file.
pub(super) fn draw(validation: &Validation, profile: &str, trace: &str) -> anyhow::Result<String> {
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
    drawn((900, 900), |area| {
        area.fill(&WHITE)?;
        let area = area.titled(&title, (FONT, 20).into_font().color(&TEXT))?;
        let (above, below) = area.split_vertically(470);
        distributions(&above, &recorded, &predicted)?;
        histogram(&below, &errors, validation.period().as_ns_f64() / 1e6)
    })
}

fn distributions(
    area: &Area<'_>,
    recorded: &[f64],
    predicted: &[f64],
) -> Result<(), Box<dyn std::error::Error>> {
    // The slowest two in a thousand would squeeze the rest into a corner.
    let last = |sorted: &[f64]| sorted.get((sorted.len() - 1) * 998 / 1000).copied().unwrap_or(1.0);
    let right = last(recorded).max(last(predicted)).max(0.1) * 1.02;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(50)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..right, 0.0..1.0_f64)?;
    chart
        .configure_mesh()
        .light_line_style(FAINT.mix(0.25))
        .bold_line_style(FAINT)
        .axis_style(TEXT.mix(0.5))
        .label_style((FONT, 16).into_font().color(&TEXT))
        .x_desc("response time (ms)")
        .y_desc("share of requests")
        .x_label_formatter(&|ms| number(*ms))
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .draw()?;
    let legend = |color: RGBColor| {
        move |(x, y)| PathElement::new([(x, y), (x + 22, y)], color.stroke_width(2))
    };
    let inside = |sorted: &[f64]| steps(sorted).filter(|(ms, _)| *ms <= right).collect::<Vec<_>>();
    chart
        .draw_series(LineSeries::new(inside(recorded), COLOURS[0].stroke_width(2)))?
        .label("recorded")
        .legend(legend(COLOURS[0]));
    chart
        .draw_series(LineSeries::new(inside(predicted), COLOURS[1].stroke_width(2)))?
        .label("simulated")
        .legend(legend(COLOURS[1]));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font((FONT, 16).into_font().color(&TEXT))
        .background_style(WHITE.mix(0.8))
        .border_style(FAINT)
        .draw()?;
    Ok(())
}

fn histogram(
    area: &Area<'_>,
    errors: &[f64],
    turn_ms: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    // A little more than a revolution either way shows all that rotation can do; the outer bars
    // hold what is further off.
    let reach = turn_ms * 1.25;
    let width = 2.0 * reach / f64::from(BARS);
    let mut counts = vec![0_usize; BARS as usize];
    for error in errors {
        let bar = ((error + reach) / width).floor().clamp(0.0, f64::from(BARS - 1));
        counts[bar as usize] += 1;
    }
    let share = |count: usize| count as f64 / errors.len().max(1) as f64;
    let top = counts.iter().copied().max().map_or(1.0, share).max(0.01) * 1.08;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(50)
        .y_label_area_size(66)
        .build_cartesian_2d(-reach..reach, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(FAINT.mix(0.25))
        .bold_line_style(FAINT)
        .axis_style(TEXT.mix(0.5))
        .label_style((FONT, 16).into_font().color(&TEXT))
        .x_desc(format!(
            "simulated less recorded (ms); a revolution is {} ms; the outer bars hold the rest",
            number(turn_ms)
        ))
        .y_desc("share of requests")
        .x_label_formatter(&|ms| format!("{ms:.1}"))
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .draw()?;
    let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bar, count)| {
        let left = f64::from(bar as u32) * width - reach;
        Rectangle::new([(left, 0.0), (left + width, share(*count))], COLOURS[1].filled())
    });
    chart.draw_series(bars)?;
    Ok(())
}

fn sorted(responses: impl Iterator<Item = Nanos>) -> Vec<f64> {
    let mut ms: Vec<f64> = responses.map(Nanos::as_ms_f64).collect();
    ms.sort_unstable_by(f64::total_cmp);
    ms
}

/// Points of the distribution: a response time and the share of requests that took no longer.
fn steps(sorted: &[f64]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let count = sorted.len();
    (0..=HEIGHTS).filter_map(move |height| {
        let rank = (height * count).div_ceil(HEIGHTS).max(1);
        Some((*sorted.get(rank - 1)?, rank as f64 / count as f64))
    })
}
