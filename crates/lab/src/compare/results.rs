//! [`Comparison`]: what came out of a plan, and its forms for other programs: `results.json`,
//! `results.csv`, `summary.csv`.
//!
//! Nothing in them depends on threads, on the machine, or on whether cells were computed now or
//! found: the time a cell took stands in the cell's own file.

use std::collections::BTreeMap;

use crate::papers::Estimated;
use anyhow::Context as _;
use serde::Serialize;

use super::cell::{Cell, CellKind};
use super::outcome::{CellOutcome, CellStatus, rounded};
use super::plan::{Case, LeftOut, Plan};
use super::references::{self, CellResult, References};
use super::spec::CompareSpec;
use super::statistics::{Best, METRICS, Metric, RankedPolicy, best, totals, worst_status};
use super::table::{COLUMNS, CellValue, Line};

/// The results of a plan.
pub struct Comparison {
    /// The input of the comparison.
    pub plan: Plan,
    /// The results, in the order of the plan's cases.
    pub cases: Vec<CaseResult>,
    /// Cells that could not be run: the name, and the reason.
    pub failures: Vec<(String, String)>,
}

/// The results of one case.
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// One for each policy of the case, in its order.
    pub entries: Vec<Entry>,
}

/// The results of one policy in one case.
pub struct Entry {
    /// The policy's place in the plan.
    pub policy: usize,
    /// One for each seed: the outcome, or why there is none.
    pub replicas: Vec<Result<CellOutcome, String>>,
}

impl Comparison {
    /// Puts the results of all cells in their places, in the order of [`Cell::all`].
    pub fn new(plan: Plan, results: Vec<(Cell, CellResult)>) -> Self {
        let mut cases: Vec<CaseResult> = plan
            .cases
            .iter()
            .map(|case| {
                let entries = case
                    .policies
                    .iter()
                    .map(|policy| Entry { policy: *policy, replicas: Vec::new() })
                    .collect();
                CaseResult { case: case.clone(), entries }
            })
            .collect();
        let references = References::new(results.iter().map(|(cell, result)| (cell, result)));
        let mut failures = Vec::new();
        for (cell, mut result) in results {
            let (name, case) = (cell.name(&plan), &mut cases[cell.case]);
            failures.extend(result.as_ref().err().map(|reason| (name, reason.clone())));
            match cell.kind {
                CellKind::Alone(_) => {}
                CellKind::Policy(policy) => {
                    if let Ok(outcome) = &mut result {
                        references.add_progress(cell.case, cell.seed, outcome);
                        let workload = &plan.workloads[plan.cases[cell.case].workload];
                        if workload.choice.open_streams().iter().all(|open| *open) {
                            references::add_equal_load(outcome, &outcome.clone());
                        }
                    }
                    case.entry(policy).replicas.push(result);
                }
                CellKind::EqualLoad { policy, .. } => {
                    let replica = plan.seeds().position(|seed| seed == cell.seed);
                    let own =
                        replica.and_then(|replica| case.entry(policy).replicas.get_mut(replica));
                    if let (Some(Ok(own)), Ok(at_equal_load)) = (own, &result) {
                        references::add_equal_load(own, at_equal_load);
                    }
                }
            }
        }
        Self { plan, cases, failures }
    }

    /// The results of a case's baseline, if it ran.
    pub fn baseline<'a>(&self, case: &'a CaseResult) -> Option<&'a Entry> {
        case.entries.iter().find(|entry| entry.policy == self.plan.baseline)
    }

    /// The best policies of a case by `metric`, as indices of the plan's policies.
    pub fn best(&self, case: &CaseResult, metric: &Metric) -> Option<Best> {
        // An overloaded policy can be best only if all are overloaded.
        let keeps_up = |entry: &Entry| entry.status() < CellStatus::Overloaded;
        let some_keep_up = case
            .entries
            .iter()
            .any(|entry| keeps_up(entry) && !self.plan.policies[entry.policy].entry.oracle);
        let candidates: Vec<RankedPolicy<'_>> = case
            .entries
            .iter()
            .map(|entry| RankedPolicy {
                place: entry.policy,
                replicas: totals(&entry.outcomes()),
                eligible: !self.plan.policies[entry.policy].entry.oracle
                    && (keeps_up(entry) || !some_keep_up),
            })
            .collect();
        best(metric, &candidates)
    }

    /// A sentence about the intervals of the figures.
    pub fn intervals(&self) -> String {
        match self.plan.spec.replicas.value {
            1 => "95 % intervals of means come from batches of one run (batch means); percentiles \
                of one run have none, and a difference is as unsure as two \
                  runs that have nothing in common. With --replicas 3 or more, intervals are \
                  Student's over replicas and differences are paired"
                .to_string(),
            replicas => format!(
                "95 % intervals are Student's over {replicas} replicas, each another unit of the \
                    drive and another draw of the workload; differences are paired: \
                 in each replica every policy had the same unit and the same requests"
            ),
        }
    }

    /// Everything, as it stands in `results.json`.
    pub fn answer(&self) -> CompareOutput<'_> {
        CompareOutput {
            version: env!("CARGO_PKG_VERSION"),
            command: self.plan.spec.command(),
            plan: &self.plan.spec,
            baseline: &self.plan.policies[self.plan.baseline].text,
            intervals: self.intervals(),
            cases: self.cases.iter().map(|case| self.answer_of(case)).collect(),
            left_out: &self.plan.left_out,
        }
    }

    fn answer_of<'a>(&'a self, case: &'a CaseResult) -> CaseAnswer<'a> {
        let baseline = self.baseline(case).map(Entry::outcomes);
        let policies = case.entries.iter().map(|entry| {
            let (replicas, against) =
                (totals(&entry.outcomes()), baseline.as_ref().map(|outcomes| totals(outcomes)));
            let metrics = METRICS.iter().filter_map(|metric| {
                Some((metric.key, EstimateAnswer::from(metric.estimate(&replicas)?)))
            });
            let differences = METRICS
                .iter()
                .filter(|_| entry.policy != self.plan.baseline)
                .filter_map(|metric| {
                    let difference = metric.difference(&replicas, against.as_deref()?)?;
                    let share = difference.share.map(|share| rounded(share.value));
                    Some((
                        metric.key,
                        DifferenceAnswer {
                            by: difference.by.into(),
                            share,
                            paired: difference.paired,
                        },
                    ))
                });
            PolicyAnswer {
                policy: &self.plan.policies[entry.policy].policy,
                belief: self.plan.belief(entry.policy),
                oracle: self.plan.policies[entry.policy].entry.oracle,
                status: entry.status(),
                metrics: metrics.collect(),
                against_baseline: differences.collect(),
                replicas: entry
                    .replicas
                    .iter()
                    .zip(self.plan.seeds())
                    .map(|(replica, seed)| ReplicaAnswer::new(seed, replica))
                    .collect(),
            }
        });
        let bests = METRICS.iter().filter_map(|metric| {
            let best = self.best(case, metric)?;
            let policies =
                best.places.iter().map(|place| self.plan.policies[*place].text.as_str()).collect();
            Some((metric.key, BestAnswer { policies, tested: best.tested }))
        });
        CaseAnswer {
            drive: &self.plan.drives[case.case.drive].text,
            workload: &self.plan.workloads[case.case.workload].name,
            depth: case.case.depth,
            warm_up: case.case.warm_up,
            policies: policies.collect(),
            best: bests.collect(),
        }
    }

    /// `results.json`.
    ///
    /// # Errors
    /// None that is known of: every key is a text.
    pub fn json(&self) -> anyhow::Result<String> {
        let text = serde_json::to_string_pretty(&self.answer())
            .context("the results cannot be written as JSON")?;
        Ok(text + "\n")
    }

    /// One line for each cell and stream, the total of a cell first.
    pub fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        for case in &self.cases {
            for entry in &case.entries {
                for (replica, seed) in entry.replicas.iter().zip(self.plan.seeds()) {
                    let total = Line {
                        comparison: self,
                        case: &case.case,
                        policy: entry.policy,
                        seed,
                        replica: replica.as_ref(),
                        stream: None,
                    };
                    let streams = replica.as_ref().map_or(&[][..], |outcome| &outcome.streams);
                    lines.push(total);
                    lines.extend(
                        streams.iter().map(|stream| Line { stream: Some(stream), ..total }),
                    );
                }
            }
        }
        lines
    }

    /// `results.csv`: the columns of [`COLUMNS`].
    ///
    /// # Errors
    /// None that is known of: everything is text.
    pub fn csv(&self) -> anyhow::Result<String> {
        let cells = |line: &Line<'_>| {
            COLUMNS.iter().map(|column| (column.of)(line).text()).collect::<Vec<_>>()
        };
        let rows = self.lines().iter().map(cells).collect::<Vec<_>>();
        table(&COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>(), &rows)
    }

    /// `summary.csv`: one line for each case, policy and metric, over all replicas.
    ///
    /// # Errors
    /// None that is known of: everything is text.
    pub fn summary_csv(&self) -> anyhow::Result<String> {
        let mut rows = Vec::new();
        for case in &self.answer().cases {
            for policy in &case.policies {
                for metric in METRICS {
                    let Some(estimate) = policy.metrics.get(metric.key) else { continue };
                    let difference = policy.against_baseline.get(metric.key);
                    let number = |value: Option<f64>| CellValue::Number(value).text();
                    let by = difference.map(|difference| difference.by);
                    let depth = case.depth.map_or_else(String::new, |depth| depth.to_string());
                    let mut row = vec![
                        case.drive.to_string(),
                        case.workload.to_string(),
                        depth,
                        policy.policy.to_string(),
                        policy.belief.to_string(),
                    ];
                    row.extend([
                        policy.oracle.to_string(),
                        policy.status.written().to_string(),
                        metric.key.to_string(),
                    ]);
                    row.extend([Some(estimate.value), estimate.low, estimate.high].map(number));
                    row.push(self.plan.policies[self.plan.baseline].text.clone());
                    row.extend(
                        [
                            by.map(|by| by.value),
                            by.and_then(|by| by.low),
                            by.and_then(|by| by.high),
                        ]
                        .map(number),
                    );
                    row.push(number(difference.and_then(|difference| difference.share)));
                    row.push(
                        difference
                            .map_or_else(String::new, |difference| difference.paired.to_string()),
                    );
                    rows.push(row);
                }
            }
        }
        table(&SUMMARY, &rows)
    }
}

impl CaseResult {
    fn entry(&mut self, policy: usize) -> &mut Entry {
        let entry = self.entries.iter_mut().find(|entry| entry.policy == policy);
        entry.expect("a cell's policy is one of its case")
    }
}

impl Entry {
    /// The outcomes, `None` where there is none.
    pub fn outcomes(&self) -> Vec<Option<&CellOutcome>> {
        self.replicas.iter().map(|replica| replica.as_ref().ok()).collect()
    }

    /// The worst that any replica says.
    pub fn status(&self) -> CellStatus {
        worst_status(&self.outcomes())
    }
}

/// The columns of `summary.csv`.
const SUMMARY: [&str; 17] = [
    "drive",
    "workload",
    "depth",
    "policy",
    "belief",
    "oracle",
    "status",
    "metric",
    "value",
    "low_95",
    "high_95",
    "baseline",
    "difference",
    "difference_low_95",
    "difference_high_95",
    "difference_share",
    "paired",
];

/// `results.json`.
#[derive(Serialize)]
pub struct CompareOutput<'a> {
    version: &'static str,
    command: String,
    plan: &'a CompareSpec,
    baseline: &'a str,
    intervals: String,
    cases: Vec<CaseAnswer<'a>>,
    left_out: &'a [LeftOut],
}

#[derive(Serialize)]
struct CaseAnswer<'a> {
    drive: &'a str,
    workload: &'a str,
    depth: Option<u32>,
    warm_up: u64,
    policies: Vec<PolicyAnswer<'a>>,
    best: BTreeMap<&'static str, BestAnswer<'a>>,
}

#[derive(Serialize)]
struct PolicyAnswer<'a> {
    policy: &'a str,
    belief: &'a str,
    oracle: bool,
    status: CellStatus,
    metrics: BTreeMap<&'static str, EstimateAnswer>,
    against_baseline: BTreeMap<&'static str, DifferenceAnswer>,
    replicas: Vec<ReplicaAnswer<'a>>,
}

#[derive(Clone, Copy, Serialize)]
struct EstimateAnswer {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Serialize)]
struct DifferenceAnswer {
    #[serde(flatten)]
    by: EstimateAnswer,
    share: Option<f64>,
    paired: bool,
}

#[derive(Serialize)]
struct BestAnswer<'a> {
    policies: Vec<&'a str>,
    tested: bool,
}

#[derive(Serialize)]
struct ReplicaAnswer<'a> {
    seed: u64,
    status: Option<CellStatus>,
    error: Option<&'a str>,
    #[serde(flatten)]
    outcome: Option<&'a CellOutcome>,
}

impl From<Estimated> for EstimateAnswer {
    fn from(estimated: Estimated) -> Self {
        Self {
            value: rounded(estimated.value),
            low: estimated.low().map(rounded),
            high: estimated.high().map(rounded),
        }
    }
}

impl<'a> ReplicaAnswer<'a> {
    fn new(seed: u64, replica: &'a Result<CellOutcome, String>) -> Self {
        let outcome = replica.as_ref().ok();
        Self {
            seed,
            status: outcome.map(CellOutcome::status),
            error: replica.as_ref().err().map(String::as_str),
            outcome,
        }
    }
}

fn table(heading: &[&str], rows: &[Vec<String>]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(heading)?;
    for row in rows {
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
