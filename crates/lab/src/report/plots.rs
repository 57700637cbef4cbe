//! The plots of reports, drawn by plotters: colors, fonts and helpers for all of them, and the
//! plots of a demo. Each policy has one color and one dash in every plot.

use std::ops::Range;

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use headtime_serve::RESPONSE_BINS_PER_DECADE;

use super::{DemoReport, PolicyRun, VolumeRun};

/// A policy's color, distinguishable without red and green.
pub(crate) const COLOURS: [RGBColor; 6] = [
    RGBColor(214, 118, 28),
    RGBColor(24, 98, 186),
    RGBColor(110, 110, 110),
    RGBColor(128, 62, 160),
    RGBColor(20, 140, 130),
    RGBColor(180, 60, 90),
];
/// The colors of the parts of disk time, in the order of
/// [`headtime_console::figures::DiskTimeShares::parts`].
const PARTS: [RGBColor; 6] = [
    RGBColor(196, 78, 82),
    RGBColor(221, 153, 80),
    RGBColor(76, 145, 92),
    RGBColor(129, 114, 179),
    RGBColor(100, 181, 205),
    RGBColor(222, 222, 218),
];
pub(crate) const TEXT: RGBColor = RGBColor(60, 64, 67);
pub(crate) const FAINT: RGBColor = RGBColor(226, 228, 230);
const HEAT: RGBColor = RGBColor(24, 74, 140);
const DEADLINE: RGBColor = RGBColor(190, 30, 45);
pub(crate) const FONT: &str = "sans-serif";

/// The drawing area of a plot.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The color of the `index`-th run, as CSS writes it.
pub(super) fn css_color(index: usize) -> String {
    css(COLOURS[index % COLOURS.len()])
}

/// The color of the `index`-th part of disk time, as CSS writes it.
pub(super) fn css_part_color(index: usize) -> String {
    css(PARTS[index % PARTS.len()])
}

fn css(color: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}

/// The response-time distributions of one volume under each policy, over a logarithmic axis, with
/// the volume's deadline as a line.
pub(super) fn response_cdf(report: &DemoReport, volume: usize) -> anyhow::Result<String> {
    let runs: Vec<&VolumeRun> =
        report.runs.iter().filter_map(|run| run.volumes.get(volume)).collect();
    let deadline_ms = report.volumes.get(volume).and_then(|plan| plan.deadline_ms);
    let points =
        runs.iter().flat_map(|run| run.response_cdf.iter().map(|point| point.0)).chain(deadline_ms);
    let x = decades(points);
    drawn((520, 360), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(x.clone().log_scale(), 0.0..1.0_f64)?;
        chart
            .configure_mesh()
            .light_line_style(FAINT.mix(0.25))
            .bold_line_style(FAINT)
            .axis_style(TEXT.mix(0.5))
            .label_style((FONT, 17).into_font().color(&TEXT))
            .x_desc("response time (ms)")
            .y_desc("share of requests")
            .y_labels(6)
            .x_label_formatter(&|ms| number(*ms))
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()?;
        if let Some(ms) = deadline_ms {
            chart.draw_series(DashedLineSeries::new(
                [(ms, 0.0), (ms, 1.0)],
                3,
                3,
                DEADLINE.stroke_width(1),
            ))?;
            let style =
                (FONT, 16).into_font().color(&DEADLINE).pos(Pos::new(HPos::Right, VPos::Top));
            chart.draw_series([Text::new(
                format!("deadline {} ms ", number(ms)),
                (ms, 0.08),
                style,
            )])?;
        }
        for (index, run) in runs.iter().enumerate() {
            let style = COLOURS[index % COLOURS.len()].stroke_width(2);
            let steps = run.response_cdf.iter().map(|(ms, share)| (ms.max(x.start), *share));
            if index == 0 {
                chart.draw_series(DashedLineSeries::new(steps, 7, 3, style))?;
            } else {
                chart.draw_series(LineSeries::new(steps, style))?;
            }
        }
        Ok(())
    })
}

/// The quantity drawn over time.
#[derive(Clone, Copy)]
pub(super) enum OverTime {
    Throughput,
    Misses,
    Shares,
}

/// Throughput, deadline misses or share of disk time of one volume, by second and policy.
pub(super) fn over_time(
    report: &DemoReport,
    volume: usize,
    what: OverTime,
) -> anyhow::Result<String> {
    let lines: Vec<Vec<(f64, f64)>> = report
        .runs
        .iter()
        .filter_map(|run| run.volumes.get(volume))
        .map(|run| {
            let value = |sample: &headtime_console::figures::VolumeSample| match what {
                OverTime::Throughput => sample.mib_per_second,
                OverTime::Misses => sample.deadline_misses as f64,
                OverTime::Shares => 100.0 * sample.disk_time_share,
            };
            run.samples.iter().map(|sample| (sample.at_seconds, value(sample))).collect()
        })
        .collect();
    let last = lines.iter().flatten().map(|point| point.0).fold(1.0, f64::max);
    let top = lines.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
    let (y, label) = match what {
        OverTime::Throughput => (0.0..(top * 1.1).max(0.1), "MiB/s"),
        OverTime::Misses => (0.0..(top * 1.1).max(1.0), "misses per second"),
        OverTime::Shares => (0.0..100.0, "% of disk time"),
    };
    drawn((520, 270), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..last, y)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(FAINT.mix(0.3))
            .bold_line_style(FAINT)
            .axis_style(TEXT.mix(0.5))
            .label_style((FONT, 17).into_font().color(&TEXT))
            .x_desc("seconds")
            .y_desc(label)
            .x_labels(6)
            .y_labels(5)
            .x_label_formatter(&|second| number(*second))
            .y_label_formatter(&|value| number(*value))
            .draw()?;
        for (index, points) in lines.iter().enumerate() {
            let style = COLOURS[index % COLOURS.len()].stroke_width(2);
            if index == 0 {
                chart.draw_series(DashedLineSeries::new(points.iter().copied(), 7, 3, style))?;
            } else {
                chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            }
        }
        let promised = report.volumes.get(volume).map_or(0.0, |plan| 100.0 * plan.reserve);
        if matches!(what, OverTime::Shares) && promised > 0.0 {
            let line = [(0.0, promised), (last, promised)];
            chart.draw_series(DashedLineSeries::new(line, 3, 3, TEXT.stroke_width(1)))?;
            let style = (FONT, 16).into_font().color(&TEXT).pos(Pos::new(HPos::Left, VPos::Bottom));
            let label = format!(" promised with shares: {} %", number(promised));
            chart.draw_series([Text::new(label, (0.0, promised), style)])?;
        }
        Ok(())
    })
}

/// One volume's response times by second under one policy: the darker, the more requests.
pub(super) fn heat(report: &DemoReport, volume: usize, run: usize) -> anyhow::Result<String> {
    let runs = || report.runs.iter().filter_map(|run| run.volumes.get(volume));
    let start = |bin: u32| 0.1 * 10_f64.powf(f64::from(bin) / f64::from(RESPONSE_BINS_PER_DECADE));
    let deadline_ms = report.volumes.get(volume).and_then(|plan| plan.deadline_ms);
    // The same axes under each policy.
    let bins = || runs().flat_map(|run| run.heat.iter().flatten());
    let ends = bins().flat_map(|(bin, _)| [start(*bin), start(*bin + 1)]);
    let y = decades(ends.chain(deadline_ms));
    let most = bins().map(|(_, count)| *count).max().unwrap_or(1) as f64;
    let last = runs().flat_map(|run| run.samples.last()).map(|sample| sample.at_seconds);
    let last = last.fold(1.0, f64::max);
    let shown = report.runs.get(run).and_then(|run| run.volumes.get(volume));
    drawn((520, 270), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..last, y.clone().log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(FAINT.mix(0.25))
            .bold_line_style(FAINT)
            .axis_style(TEXT.mix(0.5))
            .label_style((FONT, 17).into_font().color(&TEXT))
            .x_desc("seconds")
            .y_desc("response (ms)")
            .x_label_formatter(&|second| number(*second))
            .y_label_formatter(&|ms| number(*ms))
            .draw()?;
        let mut from = 0.0;
        let seconds = shown.into_iter().flat_map(|run| run.samples.iter().zip(&run.heat));
        for (sample, heat) in seconds {
            let cell = |(bin, count): &(u32, u64)| {
                let ink = 0.2 + 0.8 * (*count as f64).ln_1p() / most.ln_1p();
                let low = start(*bin).max(y.start);
                let corners = [(from, low), (sample.at_seconds, start(*bin + 1))];
                Rectangle::new(corners, HEAT.mix(ink).filled())
            };
            chart.draw_series(heat.iter().map(cell))?;
            from = sample.at_seconds;
        }
        if let Some(ms) = deadline_ms {
            let line = [(0.0, ms), (last, ms)];
            chart.draw_series(DashedLineSeries::new(line, 6, 4, DEADLINE.stroke_width(2)))?;
        }
        Ok(())
    })
}

/// The shares of the drive's time, one bar per policy.
pub(super) fn disk_time(report: &DemoReport) -> anyhow::Result<String> {
    let runs: Vec<(&PolicyRun, headtime_console::figures::DiskTimeShares)> =
        report.runs.iter().filter_map(|run| Some((run, run.disk_time?))).collect();
    let (bar, gap, left, width) = (30, 14, 150, 1_064);
    let height = runs.len() as i32 * (bar + gap) + gap;
    drawn((width as u32, height.max(1) as u32), |area| {
        let scale = f64::from(width - left - 16);
        for (row, (run, split)) in runs.iter().enumerate() {
            let y = gap + row as i32 * (bar + gap);
            let name = (FONT, 15).into_font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(run.policy.clone(), (left - 10, y + bar / 2), name))?;
            let mut from = 0.0;
            for ((part, share), color) in split.parts().into_iter().zip(PARTS) {
                let (x0, x1) =
                    (left + (from * scale) as i32, left + ((from + share) * scale) as i32);
                area.draw(&Rectangle::new([(x0, y), (x1, y + bar)], color.filled()))?;
                // Labels only where they fit; the table beside the plot has every number.
                if x1 - x0 > 74 {
                    let ink = if part == "idle" { TEXT } else { WHITE };
                    let style = (FONT, 13)
                        .into_font()
                        .color(&ink)
                        .pos(Pos::new(HPos::Center, VPos::Center));
                    area.draw(&Text::new(
                        format!("{part} {:.0} %", share * 100.0),
                        ((x0 + x1) / 2, y + bar / 2),
                        style,
                    ))?;
                }
                from += share;
            }
        }
        Ok(())
    })
}

/// Whole decades around `values`, at least one; a millisecond each way when there are none.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if high == 0.0 {
        return 0.1..10.0;
    }
    // Under a tenth of a millisecond nothing of a disk is worth a decade of the plot.
    let low = 10_f64.powf(low.max(0.1).log10().floor());
    let high = 10_f64.powf(high.max(low * 1.01).log10().ceil());
    low..high.max(low * 10.0)
}

/// A number without needless digits.
pub(crate) fn number(value: f64) -> String {
    if value >= 10.0 || value == value.round() {
        format!("{value:.0}")
    } else {
        format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_string()
    }
}

/// A plot as a file of its own.
pub(crate) fn drawn(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn std::error::Error>>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area).map_err(|error| anyhow!("a plot cannot be drawn: {error}"))?;
        area.present().map_err(|error| anyhow!("a plot cannot be finished: {error}"))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_covers_whole_decades_around_the_values() {
        assert_eq!(decades([3.0, 450.0].into_iter()), 1.0..1_000.0);
        assert_eq!(decades(std::iter::empty()), 0.1..10.0);
        let single = decades([100.0].into_iter());
        assert!(single.start <= 100.0 && single.end >= 1_000.0, "{single:?}");
        assert_eq!(decades([0.0, 0.000_1].into_iter()).start, 0.1);
    }

    #[test]
    fn numbers_carry_no_needless_digits() {
        assert_eq!([0.1, 1.0, 2.5, 100.0].map(number), ["0.1", "1", "2.5", "100"]);
    }
}
