//! `p3.t4`: P3, table 4. Four benchmarks of small files under five policies.

use headtime_units::Nanos;
use headtime_workload::{
    Arrivals, FileBenchmark, FileOperations, PageCache, Process, Sizes, StreamConfig, ThinkTime,
};

use super::p3::{self, Course, Run};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Row,
    Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p3.t4",
    title: "four benchmarks of small files under five policies",
    source: "P3, table 4, figure 4 and sections 5.7 to 5.10",
    takes: "1 min",
    find,
};

const POLICIES: [&str; 5] = ["deadline", "as", "cas", "cfq", "noop"];
const THREADS: u32 = 4;
/// Operations of each thread.
const OPERATIONS: u64 = 20_000;
/// Files at the start.
const FILES: u64 = 100_000;
/// The standard deviation between runs that is published: a difference below it is none.
const DEVIATION: f64 = 0.045;
const WINNER: &str = "half of the published gain, a guess; at least the published standard \
    deviation, 4.5 %";
/// Time of a call for 4 KiB: 200 MB/s and a system call, a guess.
const CALL: Nanos = Nanos::from_us(20);

/// A benchmark: shares of its operations, and the published seconds by policy.
struct Profile {
    name: &'static str,
    mix: FileOperations,
    published: [f64; 5],
}

const NONE: FileOperations =
    FileOperations { reads: 0.0, writes: 0.0, creates: 0.0, appends: 0.0, deletes: 0.0 };
const PROFILES: [Profile; 4] = [
    Profile {
        name: "web server",
        mix: FileOperations { reads: 1.0, ..NONE },
        published: [924.0, 863.0, 855.0, 931.0, 910.0],
    },
    Profile {
        name: "mail server",
        mix: FileOperations { reads: 0.4, creates: 0.4, deletes: 0.2, ..NONE },
        published: [118.0, 177.0, 109.0, 112.0, 125.0],
    },
    Profile {
        name: "file server",
        mix: FileOperations { reads: 0.8, writes: 0.2, ..NONE },
        published: [1127.0, 916.0, 890.0, 1099.0, 1127.0],
    },
    Profile {
        name: "metadata",
        mix: FileOperations { creates: 0.4, appends: 0.4, deletes: 0.2, ..NONE },
        published: [305.0, 295.0, 288.0, 253.0, 319.0],
    },
];

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let operations = context.requests(OPERATIONS);
    let share = operations as f64 / OPERATIONS as f64;
    let runs = PROFILES.iter().flat_map(|profile| {
        POLICIES.map(|policy| {
            let streams = vec![stream(profile.mix, share)];
            Run::new(profile.name, policy, streams, THREADS)
        })
    });
    let courses = p3::run_all(context, runs)?;
    let mut findings = Findings::new(
        p3::parameters(),
        [CACHE, TIMES].map(str::to_string).into(),
        Plot::new("policy: deadline, as, cas, cfq, noop", "seconds", Axis::Linear),
    );
    findings.add_parameter(
        "benchmarks",
        format!(
            "{THREADS} threads, {operations} operations each (published: {OPERATIONS}); {:.0} \
                files of 4 to 64 KiB in 100 directories, journal with data=ordered, page cache of \
                {:.0} MiB",
            share * FILES as f64,
            share * 1_024.0
        ),
    );
    let longer = 1.0 / share;
    let seconds = |courses: &Vec<Course>| p3::mean(courses, |course| course.seconds * longer);
    for (profile, courses) in PROFILES.iter().zip(courses.chunks(POLICIES.len())) {
        let times: Vec<Estimated> = courses.iter().map(seconds).collect();
        for ((policy, published), measured) in POLICIES.iter().zip(profile.published).zip(&times) {
            findings.rows.push(Row::new(
                p3::what(policy, &format!("time of the {} benchmark", profile.name)),
                "s",
                Judged::effect(published, *measured, p3::TOLERANCE * published, p3::GUESS),
                NOT_DESCRIBED,
            ));
        }
        let best = first(&profile.published);
        findings.rows.extend(winner(profile, best, &times));
        let points = |value: &dyn Fn(usize) -> Point| (0..POLICIES.len()).map(value).collect();
        findings.add_panel(
            profile.name,
            vec![
                Series::measured("here", points(&|place| Point::of(place as f64, times[place]))),
                Series::published(
                    "published",
                    points(&|place| Point::published(place as f64, profile.published[place])),
                ),
            ],
        );
    }
    Ok(findings)
}

/// The gains of the published winner over each other policy. A published gain below the deviation
/// between runs is a tie, on both sides of it.
fn winner<'a>(
    profile: &'a Profile,
    best: usize,
    times: &'a [Estimated],
) -> impl Iterator<Item = Row> + 'a {
    let others = (0..POLICIES.len()).filter(move |other| *other != best);
    others.map(move |other| {
        let published = profile.published[other] / profile.published[best] - 1.0;
        let published = libm::round(published * 1e3) / 1e3;
        let tolerance = DEVIATION.max(published / 2.0);
        Row::new(
            format!(
                "{}: gain of speed of {}, the published winner, over {} (simulated drives with \
                    noise)",
                profile.name, POLICIES[best], POLICIES[other]
            ),
            "gain",
            Judged::effect(published, times[other].gain(times[best]), tolerance, WINNER),
            "another policy wins here, or by another distance.",
        )
    })
}

/// The benchmarks with a share of their files, without an end.
pub(super) fn benchmarks(share: f64) -> impl Iterator<Item = (&'static str, StreamConfig)> {
    PROFILES.iter().map(move |profile| {
        let mut stream = stream(profile.mix, share);
        if let Some(Process::Files(benchmark)) = &mut stream.process {
            benchmark.operations = None;
        }
        (profile.name, stream)
    })
}

/// The place of the smallest number.
fn first(values: &[f64]) -> usize {
    (0..values.len()).min_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap_or(0)
}

/// A share of the benchmark: files, memory and operations in proportion.
fn stream(mix: FileOperations, share: f64) -> StreamConfig {
    let of = |count: u64| (count as f64 * share).ceil() as u64;
    let cache = PageCache::default();
    let benchmark = FileBenchmark {
        files: of(FILES),
        directories: 100,
        file_sizes: Sizes::Uniform {
            min_bytes: 4 << 10,
            max_bytes: 64 << 10,
            multiple_bytes: 4 << 10,
        },
        operations: Some(of(OPERATIONS)),
        mix,
        read_ahead_bytes: Some(128 << 10),
        commit: Some(Nanos::from_secs(5)),
        journal_bytes: 32 << 20,
        cache: PageCache { memory_bytes: of(cache.memory_bytes >> 20) << 20, ..cache },
    };
    StreamConfig {
        arrivals: Arrivals::Closed { clients: THREADS, think: ThinkTime::Constant(CALL) },
        process: Some(Process::Files(Box::new(benchmark))),
        ..StreamConfig::closed(THREADS)
    }
}

const NOT_DESCRIBED: &str = "FFSB's profiles, the layout of the files and the time of a call are \
    not published.";
const CACHE: &str = "Every benchmark begins with an empty cache of 1 GiB, after the file system \
    was mounted again. Files of 34 KiB on average are 3.3 GiB in all, so that at most three reads \
    in ten hit. The published mail benchmark needs 118 s for 32,000 reads and as many creations: \
    most of its reads must have hit.";
const TIMES: &str = "The time ends with the last thread; what is dirty then is not waited for. A \
    scaled run has fewer files and operations and less memory, in proportion.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::verdict::RowVerdict::{self, Inconclusive, NotReproduced, Reproduced};

    fn verdicts(times: [f64; 5], half_width: f64) -> Vec<Option<RowVerdict>> {
        let times = times.map(|seconds| Estimated::new(seconds, Some(half_width)));
        let metadata = &PROFILES[3];
        winner(metadata, first(&metadata.published), &times).map(|row| row.verdict).collect()
    }

    #[test]
    fn a_winner_must_win_and_by_about_the_published_distance() {
        let published = PROFILES[3].published;
        assert_eq!(verdicts(published, 0.5), [Some(Reproduced); 4]);
        // A tie, another winner, and a gain that is far too large.
        for others in [253.0, 200.0, 600.0] {
            let times = [others, others, others, 253.0, others];
            assert_eq!(verdicts(times, 0.5), [Some(NotReproduced); 4], "{times:?}");
        }
        assert_eq!(verdicts(published, 60.0), [Some(Inconclusive); 4]);
    }
}
