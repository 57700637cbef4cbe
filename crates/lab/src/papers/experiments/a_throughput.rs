//! `a.throughput`: the table of docs/limits.md. The throughput of each order on two drives at three
//! queue lengths, with oracles and a planner as bounds.

use headtime_mechanics::{DriveProfile, Mechanism};
use headtime_sim::Measures;

use super::limits::{self, Figures, QUEUES, TABLE, best_by_address};
use crate::papers::load::{ExperimentModel, Load, UnitOf, iops};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Panel, PaperExperiment, Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.throughput",
    title: "throughput of each order on two drives, with oracles and a planner as bounds",
    source: "docs/limits.md, the table",
    takes: "1 min",
    find,
};

/// One row of the table: a policy and its settings.
struct Line {
    name: &'static str,
    policy: &'static str,
    outstanding: Option<usize>,
    unit: UnitOf,
    model_source: ExperimentModel,
    published: Option<fn(&Figures) -> [f64; 3]>,
    /// Requests at full scale: fewer where each costs more.
    requests: u64,
}

const LINES: [Line; 12] = [
    Line::truth("FCFS, two", "fcfs", 2, |figures| figures.fcfs),
    Line::truth("C-LOOK, two", "clook", 2, |figures| figures.by_address),
    Line::truth("SSTF, two", "sstf", 2, |figures| figures.by_address),
    Line::truth("SPTF exact, one (oracle)", "sptf-oracle", 1, |figures| figures.sptf_one),
    Line::truth("SPTF exact, two (oracle)", "sptf-oracle", 2, |figures| figures.sptf_two),
    Line::truth("everything in the drive's queue", FIRMWARE, 0, |figures| figures.sptf_two),
    Line {
        requests: 10_000,
        ..Line::truth(
            "planner: beam, depth 8, width 64, two (oracle)",
            "beam-oracle",
            2,
            |figures| figures.planner,
        )
    },
    Line::truth("nearest insertion, frozen, two (oracle)", limits::FROZEN, 2, |figures| {
        figures.insertion_frozen
    }),
    Line {
        requests: 10_000,
        ..Line::truth(
            "nearest insertion, re-planned, two (oracle)",
            limits::REPLANNED,
            2,
            |figures| figures.insertion_replanned,
        )
    },
    Line::learned("SPTF by most likely time (learned model)", "sptf"),
    Line::learned("SPTF by expected time, aged (learned model)", "sptf-expected"),
    Line::learned("headtime, the default policy (learned model)", "headtime"),
];

/// Stands for [`Load::firmware`], whose depth is the queue.
const FIRMWARE: &str = "firmware";

impl Line {
    const fn truth(
        name: &'static str,
        policy: &'static str,
        outstanding: usize,
        published: fn(&Figures) -> [f64; 3],
    ) -> Self {
        Self {
            name,
            policy,
            outstanding: Some(outstanding),
            unit: UnitOf::Nominal,
            model_source: ExperimentModel::Truth,
            published: Some(published),
            requests: 50_000,
        }
    }

    const fn learned(name: &'static str, policy: &'static str) -> Self {
        Self {
            name,
            policy,
            outstanding: None,
            unit: UnitOf::Drawn,
            model_source: ExperimentModel::Learned,
            published: None,
            requests: 50_000,
        }
    }

    fn load(&self, drive: &'static str, queue: u32, requests: u64) -> Load {
        if self.policy == FIRMWARE {
            return Load::firmware(drive, queue, requests);
        }
        Load { outstanding: self.outstanding, ..Load::new(drive, self.policy, queue, requests) }
            .on(self.unit)
            .knowing(self.model_source)
    }

    fn what(&self, drive: &str, queue: u32) -> String {
        format!("{drive}, queue {queue}: {} ({})", self.name, self.unit.words())
    }
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let mut loads = Vec::new();
    for figures in &TABLE {
        for line in &LINES {
            loads.extend(
                QUEUES
                    .iter()
                    .map(|queue| line.load(figures.drive, *queue, context.requests(line.requests))),
            );
        }
    }
    let tables = loads.len();
    for figures in &TABLE {
        loads.extend(QUEUES.iter().map(|queue| {
            Load {
                alter: Some(arm_of_the_prototype),
                ..Load::new(figures.drive, "sptf-oracle", *queue, context.requests(50_000))
                    .outstanding(2)
            }
        }));
    }
    let measured = context.run(&loads)?;
    let (measured, altered) = measured.split_at(tables);

    let mut findings = Findings::new(
        limits::parameters(context.requests(50_000)),
        limits::notes(),
        Plot::new("queue length", "requests per second", Axis::PowersOfTwo),
    );
    findings.add_parameter(
        "requests counted of the planner and of re-planned nearest insertion",
        context.requests(10_000).to_string(),
    );
    for (figures, measured) in TABLE.iter().zip(measured.chunks(LINES.len() * QUEUES.len())) {
        let lines: Vec<&[Measures]> = measured.chunks(QUEUES.len()).collect();
        findings.rows.extend(rows(figures, &lines));
        findings.plot.panels.push(panel(figures, &lines));
    }
    for (figures, measured) in TABLE.iter().zip(altered.chunks(QUEUES.len())) {
        for ((queue, measures), published) in QUEUES.iter().zip(measured).zip(figures.sptf_two) {
            let what = format!(
                "{} with its arm times scaled to the prototype's mean seek, queue {queue}: SPTF \
                    exact, two (oracle, no noise)",
                figures.drive
            );
            let why = "the mean seek alone does not explain the difference; the cost of short \
                seeks in the prototype is not known.";
            findings.rows.push(limits::throughput(what, published, iops(measures), why));
        }
    }
    findings.notes.push(
        "The rows with scaled arm times are no attempt to fit: they ask how much of a \
            difference the mean seek alone explains."
            .to_string(),
    );
    Ok(findings)
}

fn rows(figures: &Figures, lines: &[&[Measures]]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, queue) in QUEUES.iter().enumerate() {
        for (line, measured) in LINES.iter().zip(lines) {
            let (what, measured) = (line.what(figures.drive, *queue), iops(&measured[place]));
            rows.push(match line.published {
                Some(published) => {
                    limits::throughput(what, published(figures)[place], measured, figures.why)
                }
                None => Row::unpublished(
                    what,
                    measured,
                    "IOPS",
                    "Not published: the throughput of a real server, for comparison with the \
                        oracles.",
                ),
            });
        }
        let best = best_by_address(&lines[1][place], &lines[2][place]);
        let (sptf, planner) = (iops(&lines[4][place]), iops(&lines[6][place]));
        let what =
            |text: &str| format!("{}, queue {queue}: {text} (oracle, no noise)", figures.drive);
        rows.push(limits::gain(
            what("gain of SPTF exact, two, over the best order by address"),
            (figures.sptf_two[place], figures.by_address[place]),
            sptf.gain(best),
            figures.why,
        ));
        rows.push(limits::gain(
            what("gain of the planner over SPTF exact, two"),
            (figures.planner[place], figures.sptf_two[place]),
            planner.gain(sptf),
            figures.why,
        ));
    }
    rows
}

fn panel(figures: &Figures, lines: &[&[Measures]]) -> Panel {
    let mut series = Vec::new();
    for (line, measured) in LINES.iter().zip(lines) {
        if let Some(published) = line.published {
            let points = QUEUES
                .iter()
                .zip(published(figures))
                .map(|(queue, iops)| Point::published(f64::from(*queue), iops))
                .collect();
            series.push(Series::published(line.name, points));
        }
        let points = QUEUES
            .iter()
            .zip(*measured)
            .map(|(queue, measures)| Point::of(f64::from(*queue), iops(measures)))
            .collect();
        series.push(Series::measured(line.name, points));
    }
    Panel { title: figures.drive.to_string(), series }
}

/// The drive with all arm times scaled so that FCFS would reach the prototype's throughput if
/// nothing else differed.
fn arm_of_the_prototype(profile: &mut DriveProfile) {
    let Some(figures) = TABLE.iter().find(|figures| figures.drive == profile.name) else { return };
    let Ok(mechanism) = Mechanism::nominal(profile) else { return };
    // A request costs a seek, half a revolution and the transfer of eight sectors on a track of
    // average length.
    let turn_ms = mechanism.period().as_ns_f64() / 1e6;
    let tracks = f64::from(profile.cylinders()) * f64::from(profile.geometry.heads);
    let track_sectors = mechanism.layout().capacity().get() as f64 / tracks;
    let required_ms = 1_000.0 / figures.fcfs[0] - turn_ms / 2.0 - turn_ms * 8.0 / track_sectors;
    let factor = required_ms / mechanism.mean_arm_time().as_ms_f64();
    profile.seek.points.iter_mut().for_each(|(_, ms)| *ms *= factor);
    if let Some(formula) = &mut profile.seek.formula {
        for part in [
            &mut formula.short_ms,
            &mut formula.short_sqrt_ms,
            &mut formula.long_ms,
            &mut formula.long_us_per_cylinder,
        ] {
            *part *= factor;
        }
    }
}
