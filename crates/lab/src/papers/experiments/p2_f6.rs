//! `p2.f6`: P2, figure 6. Foreground schedulers outside the drive against all requests in the
//! drive's own queue.

use headtime_sim::Measures;

use super::p2::{self, Asks, Known, Run, SW60};
use crate::papers::load::{UnitOf, iops};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, Panel, PaperExperiment, Plot,
    Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p2.f6",
    title: "SSTF, SPTF-SW60 % and SPTF outside the drive against the drive's own queue",
    source: "P2, figure 6 and section 5.2",
    takes: "1 min",
    find,
};

const QUEUES: [u32; 6] = [2, 4, 8, 16, 32, 64];
const REQUESTS: u64 = 50_000;
/// "The disk firmware line exactly overlaps the SPTF external line": required agreement, as a
/// share.
const OVERLAPS: f64 = 0.01;
/// The least gain that a figure without numbers shows.
const VISIBLE: f64 = 0.005;
const UNSEEN: &str = "a guess: half a percent is no visible distance in the figure";
/// Drives, and the project's target for external SPTF as a share of the firmware's throughput; the
/// paper has no such figure. The last is a drive as in its profile, without a target.
const UNITS: [(UnitOf, Option<f64>); 3] =
    [(UnitOf::Nominal, Some(0.99)), (UnitOf::ArmErrs(50), Some(0.97)), (UnitOf::Drawn, None)];
/// The names of the lines, in their order.
const NAMES: [&str; 6] = [
    "SSTF",
    "SPTF-SW60%",
    "SPTF external",
    "SPTF external by expected cost",
    "disk firmware",
    "SPTF exact, two (oracle)",
];
/// Without ageing, like the drive's own queue; the policy chooses the number of commands at the
/// drive.
const EXPECTED: &str = "sptf-expected:ageing_power=0";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let known = p2::characterized(context, &UNITS.map(|(unit, _)| unit))?;
    let mut runs = Vec::new();
    for known in &known {
        for queue in QUEUES {
            let run = |policy: &str| {
                Run::outside(known, policy, Asks::Reads { bytes: 4_096, queue }, requests)
            };
            runs.extend([run("sstf"), run(SW60), run("sptf")]);
            runs.push(Run { outstanding: None, ..run(EXPECTED) });
            runs.push(Run {
                outstanding: Some(queue as usize),
                ..run(&format!("firmware:depth={queue}"))
            });
            runs.push(run("sptf-oracle"));
        }
    }
    let measured = context.run(&runs)?;
    let mut findings = Findings::new(
        p2::parameters(requests),
        p2::notes(&known),
        Plot::new("queue length", "requests per second", Axis::PowersOfTwo),
    );
    findings.add_parameter("workload", "random 4 KiB reads, closed loop without think time");
    findings.add_parameter(
        "commands at the drive",
        "2; by expected cost 1 or 2, as it computes by overhead and queue; the drive's own queue \
            has them all",
    );
    for (((_, target), known), measured) in
        UNITS.iter().zip(&known).zip(measured.chunks(QUEUES.len() * NAMES.len()))
    {
        for (queue, measured) in QUEUES.iter().zip(measured.chunks(NAMES.len())) {
            findings.rows.extend(rows(known, *queue, *target, measured));
        }
        findings.rows.extend(growth(known, measured));
        findings.plot.panels.push(panel(known, measured));
    }
    findings.notes.push("Figure 6 gives no numbers: its lines are compared by shape.".to_string());
    Ok(findings)
}

fn rows(known: &Known, queue: u32, target: Option<f64>, measured: &[Measures]) -> Vec<Row> {
    let rates: Vec<Estimated> = measured.iter().map(iops).collect();
    let [sstf, weighted, sptf, expected, firmware, exact] = rates[..] else {
        unreachable!("one for each name")
    };
    let what = |text: &str| format!("queue {queue}: {text} ({})", known.words());
    let mut rows = Vec::new();
    let why = "predictions from outside are not the drive's own; with perfect ones two at the \
        drive reach it, as the oracle's row shows.";
    let reason = "\"exactly matches\" in a figure without numbers: a guess";
    rows.push(Row::new(
        what("gain of SPTF external over disk firmware"),
        "gain",
        Judged::none("exactly overlaps", sptf.gain(firmware), OVERLAPS, reason),
        why,
    ));
    let gain = expected.gain(firmware);
    let name = what("gain of SPTF by expected cost, one or two at the drive, over disk firmware");
    rows.push(match target {
        Some(target) => {
            let target = libm::round((target - 1.0) * 1e3) / 1e3;
            let judged = Judged::at_least(target, gain, "target of the project").target();
            Row::new(name, "gain", judged, "the target is missed.")
        }
        None => Row::unpublished(
            name,
            gain,
            "gain",
            "There is no target for a drive that differs \
            from its model by the noise of the level typical.",
        ),
    });
    let why = "Not published: the throughput with a perfect drive model and two commands at the \
        drive, from which the rest falls short by its predictions.";
    rows.push(Row::unpublished(
        what("gain of SPTF exact, two (oracle), over disk firmware"),
        exact.gain(firmware),
        "gain",
        why,
    ));
    for (name, gain) in [
        ("gain of SPTF external over SPTF-SW60%", sptf.gain(weighted)),
        ("gain of SPTF-SW60% over SSTF", weighted.gain(sstf)),
    ] {
        let judged = Judged::ordering(gain, VISIBLE, UNSEEN);
        rows.push(Row::new(what(name), "gain", judged, "few requests leave little choice."));
    }
    rows
}

/// "The differences increase with larger queue depths": SPTF over SSTF at the longest queue against
/// four held.
fn growth(known: &Known, measured: &[Measures]) -> Option<Row> {
    let gain = |queue: u32| {
        let place = QUEUES.iter().position(|other| *other == queue)?;
        let measured = &measured[place * NAMES.len()..];
        Some(iops(&measured[2]).over(iops(&measured[0])))
    };
    let growth = gain(64)?.gain(gain(4)?);
    let what =
        format!("growth of SPTF external over SSTF from queue 4 to queue 64 ({})", known.words());
    let judged = Judged::ordering(growth, VISIBLE, UNSEEN);
    Some(Row::new(what, "gain", judged, "it does not grow here."))
}

fn panel(known: &Known, measured: &[Measures]) -> Panel {
    let line = |(place, name): (usize, &&str)| {
        let points = QUEUES
            .iter()
            .zip(measured.chunks(NAMES.len()))
            .map(|(queue, measured)| Point::of(f64::from(*queue), iops(&measured[place])));
        Series::measured(*name, points.collect())
    };
    Panel { title: known.words(), series: NAMES.iter().enumerate().map(line).collect() }
}
