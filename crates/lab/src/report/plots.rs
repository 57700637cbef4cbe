//! The plots of a demo. Each policy has one color in every plot, and the first is dashed.

use headtime_console::figures::VolumeSample;
use headtime_serve::RESPONSE_BINS_PER_DECADE;

use super::{DemoReport, VolumeRun};
use crate::chart::{self, Axis, Line, Part, Plot, Spot, Stack, plain, stacks};

/// The response-time distributions of one volume under each policy, over a logarithmic axis, with
/// the volume's deadline as a line.
pub(super) fn response_cdf(report: &DemoReport, volume: usize) -> String {
    let deadline_ms = report.volumes.get(volume).and_then(|plan| plan.deadline_ms);
    let points = of_volume(report, volume).flat_map(|run| &run.response_cdf).map(|point| point.0);
    let x = Axis::decades("response time (ms)", points.chain(deadline_ms));
    let mut plot = Plot::new(x, Axis::linear("% of requests", 0.0, 100.0), SIZE, MARGIN);
    if let Some(ms) = deadline_ms {
        plot.limit_across(ms, &format!("deadline {} ms", plain(ms)));
    }
    for (index, run) in of_volume(report, volume).enumerate() {
        let steps = run.response_cdf.iter().map(|(ms, share)| (*ms, 100.0 * share));
        plot.line(&line(report, index, steps));
    }
    plot.svg("response times")
}

/// The quantity drawn over time.
#[derive(Clone, Copy)]
pub(super) enum OverTime {
    Throughput,
    Misses,
    Shares,
}

/// Throughput, deadline misses or share of disk time of one volume, by second and policy.
pub(super) fn over_time(report: &DemoReport, volume: usize, what: OverTime) -> String {
    let value = |sample: &VolumeSample| match what {
        OverTime::Throughput => sample.mib_per_second,
        OverTime::Misses => sample.deadline_misses as f64,
        OverTime::Shares => 100.0 * sample.disk_time_share,
    };
    let values = of_volume(report, volume).flat_map(|run| &run.samples).map(value);
    let y = match what {
        OverTime::Throughput => Axis::from_zero("MiB/s", values),
        OverTime::Misses => Axis::from_zero("misses per second", values),
        OverTime::Shares => Axis::linear("% of disk time", 0.0, 100.0),
    };
    let x = Axis::linear("seconds", 0.0, last_second(report, volume));
    let mut plot = Plot::new(x, y, SIZE, MARGIN);
    for (index, run) in of_volume(report, volume).enumerate() {
        let points = run.samples.iter().map(|sample| (sample.at_seconds, value(sample)));
        plot.line(&line(report, index, points));
    }
    let promised = report.volumes.get(volume).map_or(0.0, |plan| 100.0 * plan.reserve);
    if matches!(what, OverTime::Shares) && promised > 0.0 {
        plot.limit_along(promised, &format!("promised with shares: {} %", plain(promised)));
    }
    plot.svg("course over time")
}

/// One volume's response times by second under one policy: the darker, the more requests.
pub(super) fn heat(report: &DemoReport, volume: usize, run: usize) -> String {
    let start = |bin: u32| 0.1 * 10_f64.powf(f64::from(bin) / f64::from(RESPONSE_BINS_PER_DECADE));
    let deadline_ms = report.volumes.get(volume).and_then(|plan| plan.deadline_ms);
    // The same axes under each policy.
    let bins = || of_volume(report, volume).flat_map(|run| run.heat.iter().flatten());
    let ends = bins().flat_map(|(bin, _)| [start(*bin), start(*bin + 1)]);
    let y = Axis::decades("response (ms)", ends.chain(deadline_ms));
    let most = bins().map(|(_, count)| *count).max().unwrap_or(1) as f64;
    let x = Axis::linear("seconds", 0.0, last_second(report, volume));
    let mut plot = Plot::new(x, y, SIZE, MARGIN);
    let shown = report.runs.get(run).and_then(|run| run.volumes.get(volume));
    let mut from = 0.0;
    for (sample, heat) in shown.into_iter().flat_map(|run| run.samples.iter().zip(&run.heat)) {
        for (bin, count) in heat {
            let ink = 0.2 + 0.8 * (*count as f64).ln_1p() / most.ln_1p();
            let color = chart::shade(WHITE, HEAT, ink);
            plot.cell(color, (from, start(*bin)), (sample.at_seconds, start(*bin + 1)));
        }
        from = sample.at_seconds;
    }
    if let Some(ms) = deadline_ms {
        plot.limit_along(ms, "");
    }
    plot.svg("response times over time")
}

/// The shares of the drive's time, one bar per policy.
pub(super) fn disk_time(report: &DemoReport) -> String {
    let rows = report.runs.iter().filter_map(|run| {
        let parts = run
            .disk_time?
            .parts()
            .into_iter()
            .enumerate()
            .map(|(place, (name, share))| Part { class: format!("t{place}"), name, share });
        let (name, words) = (run.policy.clone(), String::new());
        Some(Stack { name, oracle: false, parts: parts.collect(), words })
    });
    stacks(&rows.collect::<Vec<_>>(), "where the drive's time went")
}

fn of_volume(report: &DemoReport, volume: usize) -> impl Iterator<Item = &VolumeRun> {
    report.runs.iter().filter_map(move |run| run.volumes.get(volume))
}

fn last_second(report: &DemoReport, volume: usize) -> f64 {
    let samples = of_volume(report, volume).flat_map(|run| &run.samples);
    samples.map(|sample| sample.at_seconds).fold(1.0, f64::max)
}

fn line(report: &DemoReport, index: usize, points: impl Iterator<Item = (f64, f64)>) -> Line {
    Line {
        class: chart::class(index),
        name: report.runs.get(index).map_or_else(String::new, |run| run.policy.clone()),
        dashed: index == 0,
        spots: points.map(Spot::plain).collect(),
    }
}

const SIZE: (f64, f64) = (520.0, 300.0);
const MARGIN: f64 = 24.0;
const WHITE: (u8, u8, u8) = (255, 255, 255);
const HEAT: (u8, u8, u8) = (24, 74, 140);
