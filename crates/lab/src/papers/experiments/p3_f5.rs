//! `p3.f5`: P3, figure 5. The ranking of policies by the size of requests.

use headtime_units::Nanos;
use headtime_workload::{Arrivals, Order, Sizes, StreamConfig, ThinkTime};

use super::p3::{self, Course, Run};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point,
    Published, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p3.f5",
    title: "ranking of policies by size of requests, one drive and RAID-0 of four",
    source: "P3, figure 5 and section 6",
    takes: "10 s",
    find,
};

/// "The four schedulers" of Linux 2.6.11.
const POLICIES: [&str; 4] = ["deadline", "as", "cfq", "noop"];
/// Blocks that the program reads, in KiB.
const BLOCKS: [u64; 6] = [4, 16, 64, 256, 1_024, 4_096];
/// The largest request of the system, in KiB.
const LARGEST: u64 = 128;
/// Processes that read: a guess.
const PROCESSES: u32 = 4;
/// Time between two requests of a process: a guess.
const THINK: Nanos = Nanos::from_us(100);
const SECONDS: f64 = 60.0;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = (SECONDS * context.scale()).clamp(1.0, SECONDS);
    let drives = [1, 4];
    let points = drives.iter().flat_map(|drives| {
        BLOCKS.iter().flat_map(move |block| {
            POLICIES.map(|policy| Run {
                limit: Nanos::from_ms((seconds * 1e3) as u64),
                drives: *drives,
                ..Run::new(format!("{block} KiB on {drives}"), policy, vec![reader(*block)], 1)
            })
        })
    });
    let courses = p3::run_all(context, points)?;
    let rates: Vec<Estimated> =
        courses.iter().map(|courses| p3::mean(courses, Course::mb_per_second)).collect();
    let mut findings = Findings::new(
        p3::parameters(),
        vec![ARRAY.to_string()],
        Plot::new("KiB of a block", "MB/s", Axis::PowersOfTwo),
    );
    findings.add_parameter(
        "program",
        format!(
            "{PROCESSES} processes read blocks at random places in requests of at most {LARGEST} \
                KiB, {THINK} apart, for {seconds:.0} s"
        ),
    );
    for (drives, rates) in drives.iter().zip(rates.chunks(BLOCKS.len() * POLICIES.len())) {
        let on = if *drives == 1 { "one drive" } else { "RAID-0 of four" };
        let by_size: Vec<&[Estimated]> = rates.chunks(POLICIES.len()).collect();
        for (block, rates) in BLOCKS.iter().zip(&by_size) {
            let mut ranked: Vec<usize> = (0..POLICIES.len()).collect();
            ranked.sort_by(|a, b| rates[*b].value.total_cmp(&rates[*a].value));
            let names: Vec<&str> = ranked.iter().map(|place| POLICIES[*place]).collect();
            findings.rows.push(Row::unpublished(
                format!("{on}, {block} KiB: {} (simulated drives with noise)", names.join(", ")),
                rates[ranked[0]],
                "MB/s of the first",
                "The figure has ranks without numbers, and the text names none.",
            ));
        }
        findings.rows.push(Row::new(
            format!(
                "{on}: smaller gain of two policies, each over the other at some size (simulated \
                    drives with noise)"
            ),
            "gain",
            Judged::ordering(crossing(&by_size), 0.01, "one percent, a guess")
                .published(Published::Shape("the best policy changes with the size")),
            "one policy is best at all sizes.",
        ));
        let line = |(place, name): (usize, &&str)| {
            let points = BLOCKS.iter().zip(&by_size);
            let points = points.map(|(block, rates)| Point::of(*block as f64, rates[place]));
            Series::measured(*name, points.collect())
        };
        findings.add_panel(on, POLICIES.iter().enumerate().map(line).collect());
    }
    Ok(findings)
}

/// Of all pairs of a policy that is best at some size and another one, the pair for which the
/// smaller of two gains is largest: the most that each gains over the other at any size. Below 0 if
/// one policy is best at all sizes.
fn crossing(by_size: &[&[Estimated]]) -> Estimated {
    let by_value = |a: &Estimated, b: &Estimated| a.value.total_cmp(&b.value);
    let most = |of: usize, over: usize| {
        let gains = by_size.iter().map(|rates| rates[of].gain(rates[over]));
        gains.max_by(by_value).expect("there are sizes")
    };
    let best = |rates: &&[Estimated]| {
        (0..rates.len()).max_by(|a, b| by_value(&rates[*a], &rates[*b])).unwrap_or(0)
    };
    let pairs = by_size.iter().map(best).flat_map(|one| {
        (0..POLICIES.len()).filter(move |other| *other != one).map(move |other| (one, other))
    });
    pairs
        .map(|(one, other)| [most(one, other), most(other, one)])
        .map(|gains| gains.into_iter().min_by(by_value).expect("two gains"))
        .max_by(by_value)
        .expect("there are policies")
}

/// Blocks of so many KiB at random places, each read from its start to its end.
fn reader(block_kib: u64) -> StreamConfig {
    let request = block_kib.min(LARGEST);
    StreamConfig {
        arrivals: Arrivals::Closed { clients: PROCESSES, think: ThinkTime::Constant(THINK) },
        sizes: Sizes::Fixed { bytes: request << 10 },
        order: Order::FixedRuns { requests: block_kib / request },
        ..StreamConfig::closed(PROCESSES)
    }
}

const ARRAY: &str = "The array is one device under one policy with four commands at it, striped by \
    64 KiB; Linux's own arrays have a scheduler for each member.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_is_as_large_as_the_smaller_of_its_two_gains() {
        let sure = |value| Estimated::new(value, Some(0.1));
        let crossing = |by_size: &[&[Estimated]]| crossing(by_size).value;
        let (small, large) = ([10.0, 12.0, 1.0, 1.0].map(sure), [30.0, 20.0, 1.0, 1.0].map(sure));
        assert!((crossing(&[&small, &large]) - 0.2).abs() < 1e-9, "0.2 and 0.5");
        let beaten = crossing(&[&large, &large]);
        assert!((beaten + 1.0 / 3.0).abs() < 1e-9, "the same is best everywhere: {beaten}");
    }
}
