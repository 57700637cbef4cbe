//! `p1.f5`: P1, figure 5. Throughput against the number of processes, for all of the paper's
//! schedulers.

use std::sync::Arc;

use headtime_belief::matrix::{Directions, MatrixSettings};
use headtime_sim::Measures;

use super::p1::{self, Collect, DRIVE, Knows, LearnCompact, LearnFrom, OTHERS, Run};
use crate::papers::characterized::Unknown;
use crate::papers::load::{UnitOf, iops};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, Panel, PaperExperiment, Plot,
    Point, Published, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.f5",
    title: "throughput against queue length for all schedulers",
    source: "P1, figure 5 and section V-C",
    takes: "20 min",
    find,
};

const QUEUES: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const REQUESTS: u64 = 20_000;
/// The paper's names, the policies, and the depth of the drive's own queue where it holds all
/// requests.
const SCHEDULERS: [(&str, &str, Option<usize>); 10] = [
    ("NOOP", "fcfs", None),
    ("CFQ", "cfq", None),
    // As in the paper's kernel: a seek does not end a batch.
    ("DEADLINE", "deadline:seeks_in_batch=1", None),
    ("SATF-LBN", "satf-lbn", None),
    ("FSATF-LBN", "fsatf-lbn", None),
    ("SATF-MAP", "satf-map", None),
    ("FSATF-MAP", "fsatf-map", None),
    ("FSATF-MAP-EXACT", "fsatf-map-exact", None),
    ("TCQ4", "firmware", Some(4)),
    ("TCQ64", "firmware", Some(64)),
];
/// The policies that use times, with the order by address that each is compared with, for other
/// knowledge of the drive: those of the paper, and the nearest neighbor.
const BEYOND: [(&str, &str, &str); 4] = [
    ("SATF-MAP", "satf-map", "SATF-LBN"),
    ("FSATF-MAP", "fsatf-map", "FSATF-LBN"),
    (NEAREST, p1::GREEDY, "SATF-LBN"),
    ("the nearest neighbor, frozen", "fsatf-map:nearest_first=2", "FSATF-LBN"),
];
const NEAREST: &str = "the nearest neighbor";
/// The other drives, with the paper's comparison of all drives.
const ON_OTHERS: [(&str, &str); 4] = [
    ("SATF-LBN", "satf-lbn"),
    ("FSATF-LBN", "fsatf-lbn"),
    ("SATF-MAP", "satf-map"),
    ("FSATF-MAP", "fsatf-map"),
];
/// Pairs of positions on each of them, against the first drive's.
const SHARE_OF_OTHERS: f64 = 0.1;
/// The published gains of SATF-MAP and FSATF-MAP over their orders by address: at most, at most,
/// and on average.
const UP_TO: f64 = 0.28;
const FROZEN: f64 = 0.17;
const ON_AVERAGE: f64 = 0.13;
/// Required agreement of a gain, as a share of it (guess), and of equal throughputs.
const OF_GAIN: f64 = 0.25;
const SAME: f64 = 0.03;
/// The least gain that the figure shows, and the least loss that is a fall.
const VISIBLE: f64 = 0.01;
const FALLEN: f64 = 0.1;
const UNSEEN: &str = "a guess: less is not visible in the figure";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let positions = p1::positions(context, 1.0);
    let of_others = p1::positions(context, SHARE_OF_OTHERS);
    let (published, both) = (
        MatrixSettings::default(),
        MatrixSettings { directions: Directions::Both, ..MatrixSettings::default() },
    );
    let mut required =
        vec![Collect::of(DRIVE, positions, published), Collect::of(DRIVE, positions, both)];
    required.extend(OTHERS.map(|drive| Collect::of(drive, of_others, published)));
    let maps = context.run(&required)?;
    let characterized = context.run(&[Unknown { drive: UNCACHED, unit: UnitOf::Drawn }])?.remove(0);
    let map = Knows::Map(Arc::clone(&maps[0]));
    let learned_from = context.requests(p1::LEARNED_FROM);
    let learn =
        |from| LearnCompact { drive: DRIVE, unit: UnitOf::Drawn, from, requests: learned_from };
    let compact = context
        .run(&[learn(LearnFrom::Nothing), learn(LearnFrom::Found(Arc::clone(&characterized)))])?;
    let more = [
        ("map of both directions", Knows::Map(Arc::clone(&maps[1]))),
        ("compact map from nothing", Knows::Compact(Arc::clone(&compact[0]))),
        ("compact map from the characterized profile", Knows::Compact(Arc::clone(&compact[1]))),
        ("characterized profile", Knows::Profile(Arc::clone(&characterized))),
    ];

    // "While allowing only one request to the underlying disk drive."
    let one = |run: Run| Run { outstanding: Some(1), ..run };
    let run = |policy: &str, depth: Option<usize>, knows: &Knows, queue: u32| {
        let run = Run::of(DRIVE, policy, knows.clone(), positions, queue, requests);
        if let Some(depth) = depth { run.in_drive(depth) } else { one(run) }
    };
    let mut runs = Vec::new();
    for queue in QUEUES {
        runs.extend(SCHEDULERS.map(|(_, policy, depth)| run(policy, depth, &map, queue)));
        runs.extend(
            more.iter().flat_map(|(_, knows)| {
                BEYOND.map(|(_, policy, _)| run(policy, None, knows, queue))
            }),
        );
    }
    let each = SCHEDULERS.len() + BEYOND.len() * more.len();
    let first = runs.len();
    for (drive, map) in OTHERS.iter().zip(&maps[2..]) {
        for queue in QUEUES {
            runs.extend(ON_OTHERS.map(|(_, policy)| {
                let map = Knows::Map(Arc::clone(map));
                one(Run::of(drive, policy, map, of_others, queue, requests))
            }));
        }
    }
    let measured = context.run(&runs)?;
    let (main, others) = measured.split_at(first);

    let mut findings = Findings::new(
        p1::parameters(positions, requests),
        p1::notes(),
        Plot::new("processes", "requests per second", Axis::PowersOfTwo),
    );
    findings.add_parameter(
        "at the drive",
        "one command; TCQ4 and TCQ64 have so many in the drive's own queue",
    );
    findings.add_parameter(
        "other drives",
        format!("{}, {of_others} positions each", OTHERS.join(", ")),
    );
    findings.notes.push(format!(
        "Of the map's pairs {:.1} % are known when measuring begins.",
        100.0 * maps[0].known
    ));
    findings.notes.push(format!("The characterized profile: {}.", characterized.words()));
    findings.notes.push(CPU.to_string());
    let table = Table {
        columns: main.chunks(each).map(|measured| measured.iter().map(iops).collect()).collect(),
    };
    findings.rows.extend(published_rows(&table));
    findings.rows.extend(beyond_rows(&table, &more.each_ref().map(|(name, _)| *name)));
    findings.plot.panels.push(panel(
        DRIVE.to_string(),
        &SCHEDULERS.map(|(name, ..)| name),
        main,
        each,
    ));
    for (drive, measured) in OTHERS.iter().zip(others.chunks(QUEUES.len() * ON_OTHERS.len())) {
        let table = Table {
            columns: measured
                .chunks(ON_OTHERS.len())
                .map(|measured| measured.iter().map(iops).collect())
                .collect(),
        };
        for (what, of, over, published) in
            [("SATF-MAP over SATF-LBN", 2, 0, UP_TO), ("FSATF-MAP over FSATF-LBN", 3, 1, FROZEN)]
        {
            let reason = "half of the first drive's: \"approximately the same degree\", a guess";
            findings.rows.push(Row::new(
                format!(
                    "{drive}: gain of {what}, maximum over all queue lengths (simulated drive with \
                    noise)"
                ),
                "gain",
                Judged::effect(published, table.most(of, over), 0.5 * published, reason)
                    .published(Published::Shape("approximately that of the first drive")),
                HALF,
            ));
        }
        findings.plot.panels.push(panel(
            (*drive).to_string(),
            &ON_OTHERS.map(|(name, _)| name),
            measured,
            ON_OTHERS.len(),
        ));
    }
    Ok(findings)
}

/// The drive without its cache, which the probe characterizes.
const UNCACHED: &str = "cheetah10k7@nocache";

/// Requests a second by queue length and scheduler.
struct Table {
    columns: Vec<Vec<Estimated>>,
}

impl Table {
    fn at(&self, queue: u32, scheduler: usize) -> Estimated {
        let place = QUEUES.iter().position(|other| *other == queue).expect("a queue that was run");
        self.columns[place][scheduler]
    }

    /// The gain of one scheduler over another at one queue length.
    fn gain(&self, queue: u32, of: usize, over: usize) -> Estimated {
        self.at(queue, of).gain(self.at(queue, over))
    }

    /// The gain at each queue of more than one.
    fn gains(&self, of: usize, over: usize) -> impl Iterator<Item = Estimated> + '_ {
        QUEUES[1..].iter().map(move |queue| self.gain(*queue, of, over))
    }

    /// The largest gain at any queue of more than one.
    fn most(&self, of: usize, over: usize) -> Estimated {
        self.gains(of, over)
            .max_by(|one, two| one.value.total_cmp(&two.value))
            .expect("there are queues of more than one")
    }

    /// The mean gain, with the interval of independent ones.
    fn mean(&self, of: usize, over: usize) -> Estimated {
        let gains: Vec<Estimated> = self.gains(of, over).collect();
        let count = gains.len() as f64;
        let squares: Option<f64> =
            gains.iter().map(|gain| gain.half_width.map(|width| width * width)).sum();
        Estimated::new(
            gains.iter().map(|gain| gain.value).sum::<f64>() / count,
            squares.map(|squares| libm::sqrt(squares) / count),
        )
    }
}

/// The place of a scheduler in the table.
fn place(name: &str) -> usize {
    SCHEDULERS.iter().position(|(other, ..)| *other == name).expect("a scheduler of the table")
}

fn published_rows(table: &Table) -> Vec<Row> {
    let what = |text: &str| format!("{text} (simulated drive with noise)");
    let [noop, cfq, deadline, satf, fsatf, satf_map, fsatf_map] =
        ["NOOP", "CFQ", "DEADLINE", "SATF-LBN", "FSATF-LBN", "SATF-MAP", "FSATF-MAP"].map(place);
    let (exact, tcq4, tcq64) = (place("FSATF-MAP-EXACT"), place("TCQ4"), place("TCQ64"));
    let mut rows = Vec::new();
    let mut push = |text: &str, judged: Judged, why: &str| {
        rows.push(Row::new(what(text), "gain", judged, why));
    };
    let stated = |published: f64, gain: Estimated| {
        Judged::effect(published, gain, OF_GAIN * published, "a quarter of the gain, a guess")
    };
    let same = |gain: Estimated| {
        Judged::none("identical", gain, SAME, "\"identical\", \"does not depend\": a guess")
    };
    let above = |gain: Estimated| Judged::ordering(gain, VISIBLE, UNSEEN);
    for queue in &QUEUES[2..] {
        let why = "requests that are repeated within so few processes come from the drive's cache.";
        let text = format!("gain of NOOP, {queue} processes over 2");
        push(&text, same(table.at(*queue, noop).gain(table.at(2, noop))), why);
    }
    for queue in QUEUES {
        let why = "CFQ keeps several requests of a process together where it has them.";
        let text = format!("gain of CFQ over NOOP, {queue} processes");
        push(&text, same(table.gain(queue, cfq, noop)), why);
    }
    let most = table.most(deadline, noop);
    push(
        "gain of DEADLINE over NOOP, maximum over all queue lengths",
        stated(0.5, most),
        "the gain of batches in order of address depends on the queue length at which requests \
            begin to expire, and so on the drive's speed.",
    );
    let back = table.gain(256, deadline, noop);
    let fallen = Estimated::new(
        most.value - back.value,
        most.half_width.zip(back.half_width).map(|(one, other)| libm::hypot(one, other)),
    );
    push(
        "gain of DEADLINE over NOOP, maximum less that at 256 processes",
        Judged::at_least(FALLEN, fallen, "\"starts to approach NOOP's line\": a guess")
            .published(Published::Shape("falls once requests wait for 500 ms")),
        "batches of 16 in order of address continue after each expired request.",
    );
    for queue in &QUEUES[1..] {
        for (name, over) in [("DEADLINE", deadline), ("NOOP", noop)] {
            let text = format!("gain of SATF-LBN over {name}, {queue} processes");
            push(&text, above(table.gain(*queue, satf, over)), "it does not gain here.");
        }
        let (text, gain) = if *queue < 100 {
            ("SATF-LBN over FSATF-LBN", table.gain(*queue, satf, fsatf))
        } else {
            ("FSATF-LBN over SATF-LBN", table.gain(*queue, fsatf, satf))
        };
        push(&format!("gain of {text}, {queue} processes"), above(gain), CPU);
    }
    push(
        "gain of SATF-MAP over SATF-LBN, maximum over all queue lengths",
        stated(UP_TO, table.most(satf_map, satf)),
        HALF,
    );
    push(
        "gain of FSATF-MAP over FSATF-LBN, maximum over all queue lengths",
        stated(FROZEN, table.most(fsatf_map, fsatf)),
        HALF,
    );
    push(
        "gain of FSATF-MAP over FSATF-LBN, mean over queues from 2 on",
        stated(ON_AVERAGE, table.mean(fsatf_map, fsatf)),
        HALF,
    );
    push(
        "gain of FSATF-MAP-EXACT, 16 processes over 8",
        Judged::at_most(-FALLEN, table.at(16, exact).gain(table.at(8, exact)), "a guess")
            .published(Published::Shape("drops rapidly from 8 on")),
        CPU,
    );
    for queue in &QUEUES[1..] {
        let text = format!("gain of TCQ4 over NOOP, {queue} processes");
        let why = "four in the drive's queue gain nothing here.";
        push(&text, above(table.gain(*queue, tcq4, noop)), why);
        for (name, other) in [("SATF-LBN", satf), ("FSATF-LBN", fsatf), ("DEADLINE", deadline)] {
            push(
                &format!("gain of TCQ4 over {name}, {queue} processes"),
                Judged::at_most(VISIBLE, table.gain(*queue, tcq4, other), UNSEEN)
                    .published(Published::Shape("none")),
                "four in the drive's queue gain more than all of them by address.",
            );
        }
        let others = (0..SCHEDULERS.len()).filter(|other| *other != tcq64);
        let best = others
            .max_by(|one, two| {
                table.at(*queue, *one).value.total_cmp(&table.at(*queue, *two).value)
            })
            .expect("there are others");
        push(
            &format!("gain of TCQ64 over the best of the others, {queue} processes"),
            above(table.gain(*queue, tcq64, best)),
            "another is better here.",
        );
    }
    let why = "a drive with the figures of the data sheet reaches another rate; the paper does not \
        describe how its drive differs.";
    let rate = table.at(16, noop);
    rows.push(Row::new(
        what("NOOP, 16 processes"),
        "requests per second",
        Judged::effect(130.0, rate, 13.0, "10 %, a guess: a drive of a data sheet"),
        why,
    ));
    rows
}

/// The gains by other knowledge than the published map: at some queue lengths, and of the first,
/// a map of both directions, the largest of the nearest neighbor, beside the published one.
fn beyond_rows(table: &Table, model_source: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, name) in model_source.iter().enumerate() {
        for (which, (policy, _, by_address)) in BEYOND.into_iter().enumerate() {
            let column = SCHEDULERS.len() + number * BEYOND.len() + which;
            let what = |at: &str| {
                format!(
                    "gain of {policy} by a {name} over {by_address}, {at} (simulated drive with \
                        noise)"
                )
            };
            for queue in [16, 64, 256] {
                let gain = table.gain(queue, column, place(by_address));
                let why = "Not published: another drive model, or another order.";
                rows.push(Row::unpublished(what(&format!("{queue} processes")), gain, "gain", why));
            }
            if number == 0 && policy == NEAREST {
                let most = table.most(column, place(by_address));
                let reason = "a quarter of the gain, a guess";
                let judged = Judged::effect(UP_TO, most, OF_GAIN * UP_TO, reason);
                let what = what("maximum over all queue lengths");
                rows.push(Row::new(what, "gain", judged, "the drive is one of a data sheet."));
            }
        }
    }
    rows
}

fn panel(title: String, names: &[&str], measured: &[Measures], each: usize) -> Panel {
    let line = |(place, name): (usize, &&str)| {
        let points = QUEUES
            .iter()
            .zip(measured.chunks(each))
            .map(|(queue, measured)| Point::of(f64::from(*queue), iops(&measured[place])));
        Series::measured(*name, points.collect())
    };
    Panel { title, series: names.iter().enumerate().map(line).collect() }
}

const HALF: &str = "paths by insertion gain little over an order by address, whatever the map; the \
    nearest neighbor by the same map gains more (p1.map varies map, order and drive).";
const CPU: &str = "What the paper says of long queues (the collapse of the exact solution, and \
    SATF-LBN falling behind past 100) was processor time of its day; decisions take no time in \
    simulation, and FSATF-MAP-EXACT goes over to insertion beyond the queue that it solves.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::verdict::RowVerdict;

    /// A table with the published gains at every queue length, each rate unsure by a share.
    fn planted(unsure: f64, map_gain: f64, tcq4: f64) -> Table {
        let rate = |value: f64| Estimated::new(value, Some(unsure * value));
        let by_queue = |queue: u32| {
            let satf = if queue < 100 { 200.0 } else { 190.0 };
            let deadline = if queue < 100 { 195.0 } else { 150.0 };
            let (fsatf, map) = (195.0, satf * (1.0 + map_gain));
            [130.0, 130.0, deadline, satf, fsatf, map, fsatf * 1.15, 130.0, tcq4, 300.0]
                .map(rate)
                .to_vec()
        };
        Table { columns: QUEUES.map(by_queue).to_vec() }
    }

    fn verdict(table: &Table, start: &str) -> RowVerdict {
        let rows = published_rows(table);
        let row = rows.iter().find(|row| row.what.starts_with(start)).expect("a row of the table");
        row.verdict.expect("it is judged")
    }

    #[test]
    fn a_planted_gain_is_reproduced_and_its_absence_is_not() {
        let map = "gain of SATF-MAP over SATF-LBN, maximum";
        assert_eq!(verdict(&planted(0.002, 0.28, 165.0), map), RowVerdict::Reproduced);
        for wrong in [0.0, 0.1, 0.5] {
            let table = planted(0.002, wrong, 165.0);
            assert_eq!(verdict(&table, map), RowVerdict::NotReproduced, "{wrong}");
        }
        assert_eq!(verdict(&planted(0.1, 0.28, 165.0), map), RowVerdict::Inconclusive);
    }

    #[test]
    fn an_order_that_fails_at_one_queue_length_shows_there() {
        let mut table = planted(0.002, 0.28, 165.0);
        let (queue, tcq4) = (QUEUES.iter().position(|queue| *queue == 4).unwrap_or(0), 8);
        table.columns[queue][tcq4] = Estimated::new(230.0, Some(0.5));
        let at = |queue: u32| format!("gain of TCQ4 over SATF-LBN, {queue} processes");
        assert_eq!(verdict(&table, &at(4)), RowVerdict::NotReproduced);
        assert_eq!(verdict(&table, &at(32)), RowVerdict::Reproduced);
        assert_eq!(verdict(&table, "gain of FSATF-LBN over SATF-LBN, 128"), RowVerdict::Reproduced);
    }
}
