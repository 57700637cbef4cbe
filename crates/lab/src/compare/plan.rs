//! [`Plan`]: the resolved comparison: drives and workloads loaded, impossible combinations set
//! aside with the reason.
//!
//! A [`Case`] is one drive under one workload at one depth. Every policy of a case runs on the same
//! instances and gets the same requests, so that policies are compared in pairs. An instance and a
//! workload are therefore drawn from the replica's seed only.

use anyhow::{Context as _, anyhow};
use headtime_sched::{DeadlineTable, IoPriority, POLICIES, Parameters, PolicyEntry, Tunables};
use headtime_sim::RunError;
use headtime_workload::RequestSource;
use serde::Serialize;

use super::belief::PlannedBelief;
use super::fingerprint::fnv;
use super::spec::{CompareSpec, Located};
use crate::drives::SimDrive;
use crate::workloads::{Service, WorkloadChoice};
use headtime_console::Failure;

/// A comparison that can be run.
#[derive(Clone)]
pub struct Plan {
    /// The input of the comparison.
    pub spec: CompareSpec,
    /// The policies, each by each belief, in the order of all tables.
    pub policies: Vec<PlannedPolicy>,
    /// The beliefs.
    pub beliefs: Vec<PlannedBelief>,
    /// The place of the policy that the others are compared with.
    pub baseline: usize,
    /// The tunables of the scheduler.
    pub tunables: Tunables,
    /// The drives.
    pub drives: Vec<PlannedDrive>,
    /// The workloads.
    pub workloads: Vec<PlannedWorkload>,
    /// The cases, in the order of all tables.
    pub cases: Vec<Case>,
    /// The combinations left out, with the reasons.
    pub left_out: Vec<LeftOut>,
}

/// One policy by one belief.
#[derive(Clone)]
pub struct PlannedPolicy {
    /// The name: the policy as written, and its drive model where several are compared.
    pub text: String,
    /// The policy as it was written: the name, and parameters.
    pub policy: String,
    /// The index of its drive model; `None` for an oracle, which uses the truth and runs once.
    pub belief: Option<usize>,
    /// Its line in the table.
    pub entry: &'static PolicyEntry,
    /// Its parameters.
    pub parameters: Parameters,
}

/// One drive.
#[derive(Clone)]
pub struct PlannedDrive {
    /// As it was written.
    pub text: String,
    /// The drive, or the array.
    pub drive: SimDrive,
    /// Of everything the profiles say.
    pub fingerprint: u64,
}

/// One workload.
#[derive(Clone)]
pub struct PlannedWorkload {
    /// The name, short unless another one has the same.
    pub name: String,
    /// The description.
    pub choice: WorkloadChoice,
}

/// One drive under one workload at one depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The drive's place in the plan.
    pub drive: usize,
    /// The workload's.
    pub workload: usize,
    /// Requests held by closed loops that leave it open; `None` for workloads without such a loop.
    pub depth: Option<u32>,
    /// The places of the policies that can run.
    pub policies: Vec<usize>,
    /// Requests that finish before counting begins.
    pub warm_up: u64,
}

/// A combination that is not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The policy; `None` for all.
    pub policy: Option<String>,
    /// The drive.
    pub drive: String,
    /// The workload; `None` for all.
    pub workload: Option<String>,
    /// The depths; `None` for all.
    pub depths: Option<Vec<u32>>,
    /// Why.
    pub reason: String,
}

impl Plan {
    /// Resolves the input of a comparison.
    ///
    /// # Errors
    /// When a policy, drive or workload is unknown, a number is invalid, or nothing is left to run;
    /// the message names the place.
    pub fn new(spec: CompareSpec) -> Result<Self, Failure> {
        let tunables = spec.tunables()?;
        let workloads = workloads(&spec, &tunables.deadlines)?;
        Self::of(spec, workloads)
    }

    /// As [`Plan::new`], with these workloads instead of those that the input names.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of(spec: CompareSpec, workloads: Vec<PlannedWorkload>) -> Result<Self, Failure> {
        spec.check()?;
        let beliefs = once(&spec.beliefs)
            .into_iter()
            .map(PlannedBelief::load)
            .collect::<Result<Vec<_>, _>>()?;
        let policies = policies(&spec.policies, &beliefs)?;
        let baseline = baseline(spec.baseline.as_ref(), &policies)?;
        let drives = once(&spec.drives)
            .into_iter()
            .map(PlannedDrive::load)
            .collect::<Result<Vec<_>, _>>()?;
        let tunables = spec.tunables()?;
        let mut plan = Self {
            spec,
            policies,
            beliefs,
            baseline,
            tunables,
            drives,
            workloads,
            cases: Vec::new(),
            left_out: Vec::new(),
        };
        for drive in 0..plan.drives.len() {
            let able = plan.able(drive);
            for workload in 0..plan.workloads.len() {
                plan.add_cases(drive, workload, &able);
            }
        }
        if plan.cases.is_empty() {
            // Several policies may be left out for one reason.
            let reasons = each_once(plan.left_out.iter().map(|left_out| left_out.reason.as_str()));
            return Err(Failure::Usage(anyhow!(
                "nothing is left to compare: {}",
                reasons.join("; ")
            )));
        }
        Ok(plan)
    }

    /// The seeds of the replicas.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.spec.seed.value;
        (0..self.spec.replicas.value).map(move |replica| first.wrapping_add(replica))
    }

    /// The requests of `case` for the replica of this seed.
    ///
    /// # Errors
    /// When the workload does not fit the drive.
    pub fn source(&self, case: &Case, seed: u64) -> Result<Box<dyn RequestSource + Send>, Failure> {
        let drive = &self.drives[case.drive].drive;
        let sector = drive.profile.sector_size().map_err(Failure::usage)?;
        self.workloads[case.workload].choice.source(sector, drive.capacity(), seed, case.depth)
    }

    /// The requests of one stream of [`Plan::source`], by its number.
    ///
    /// # Errors
    /// When the workload does not fit the drive.
    pub fn source_of(
        &self,
        case: &Case,
        stream: usize,
        seed: u64,
    ) -> Result<Box<dyn RequestSource + Send>, Failure> {
        let drive = &self.drives[case.drive].drive;
        let sector = drive.profile.sector_size().map_err(Failure::usage)?;
        self.workloads[case.workload].choice.source_of(
            stream as u32,
            sector,
            drive.capacity(),
            seed,
            case.depth,
        )
    }

    /// The terms of the streams of `case` and the scan beside them.
    ///
    /// # Errors
    /// When the scheduler does not take the terms of a stream.
    pub fn service(&self, case: &Case) -> Result<Service, Failure> {
        self.workloads[case.workload].choice.service(&self.drives[case.drive].drive.profile)
    }

    /// A one-line description of `case`.
    pub fn name(&self, case: &Case) -> String {
        let depth = case.depth.map_or_else(String::new, |depth| format!(", depth {depth}"));
        format!("{}, {}{depth}", self.drives[case.drive].text, self.workloads[case.workload].name)
    }

    /// The places of the policies that can run on a drive; the others are set aside.
    fn able(&mut self, drive: usize) -> Vec<usize> {
        let PlannedDrive { text, drive, .. } = self.drives[drive].clone();
        let arms = drive.arms();
        let (able, unable) = (0..self.policies.len())
            .partition::<Vec<usize>, _>(|policy| !self.policies[*policy].entry.oracle || arms == 1);
        let set_aside = unable.into_iter().map(|policy| {
            let reason = RunError::OracleOfArms {
                policy: self.policies[policy].entry.name,
                drive: drive.title(&text).to_owned(),
                arms,
            }
            .to_string();
            LeftOut {
                policy: Some(self.policies[policy].text.clone()),
                drive: text.clone(),
                workload: None,
                depths: None,
                reason,
            }
        });
        self.left_out.extend(set_aside);
        let unfit: Vec<Option<String>> = self
            .beliefs
            .iter()
            .map(|belief| belief.begin(&drive).err().map(|failure| failure.message()))
            .collect();
        let reason =
            |policy: usize| self.policies[policy].belief.and_then(|belief| unfit[belief].clone());
        let (able, unable) =
            able.into_iter().partition::<Vec<usize>, _>(|policy| reason(*policy).is_none());
        let set_aside: Vec<LeftOut> = unable
            .into_iter()
            .map(|policy| LeftOut {
                policy: Some(self.policies[policy].text.clone()),
                drive: text.clone(),
                workload: None,
                depths: None,
                reason: reason(policy).expect("it was set aside for it"),
            })
            .collect();
        self.left_out.extend(set_aside);
        able
    }

    /// By what a policy of the plan believes, in a word.
    pub fn belief(&self, policy: usize) -> &str {
        self.policies[policy].belief.map_or(TRUTH, |belief| &self.beliefs[belief].text)
    }

    fn add_cases(&mut self, drive: usize, workload: usize, able: &[usize]) {
        let PlannedWorkload { name, choice } = &self.workloads[workload];
        let depths: Vec<u32> = once(&self.spec.depths)
            .iter()
            .map(|depth| u32::try_from(depth.value).expect("depths were checked"))
            .collect();
        let left_out = |depths: &[u32], reason: String| LeftOut {
            policy: None,
            drive: self.drives[drive].text.clone(),
            workload: Some(name.clone()),
            depths: Some(depths.to_vec()),
            reason,
        };
        let (depths, mut set_aside): (Vec<Option<u32>>, Vec<LeftOut>) = if choice.takes_depth() {
            (depths.into_iter().map(Some).collect(), Vec::new())
        } else {
            let reason = "the workload sets its own queue depth and takes no \
                depth: it runs once, depth –"
                .to_string();
            (
                vec![None],
                if depths.len() > 1 { vec![left_out(&depths, reason)] } else { Vec::new() },
            )
        };
        let mut cases = Vec::new();
        for depth in depths {
            let case = Case {
                drive,
                workload,
                depth,
                policies: able.to_vec(),
                warm_up: self.warm_up(depth),
            };
            match self.service(&case).and_then(|_| self.source(&case, self.spec.seed.value)) {
                Ok(_) if able.is_empty() => {}
                Ok(_) => cases.push(case),
                Err(failure) => set_aside
                    .push(left_out(&depth.into_iter().collect::<Vec<_>>(), failure.message())),
            }
        }
        self.cases.extend(cases);
        for mut one in set_aside {
            match self.left_out.last_mut() {
                // A combination that fails at one depth usually fails at all; it is reported once.
                Some(last)
                    if last.depths.is_some()
                        && (&last.drive, &last.workload, &last.reason)
                            == (&one.drive, &one.workload, &one.reason) =>
                {
                    last.depths.get_or_insert_default().append(one.depths.get_or_insert_default());
                }
                _ => self.left_out.push(one),
            }
        }
    }

    /// A tenth of the requests, and at least two of each client: the first round of a closed loop,
    /// in which all ask at once, is not how it goes on. None where time is measured.
    fn warm_up(&self, depth: Option<u32>) -> u64 {
        if self.spec.seconds.is_some() {
            return 0;
        }
        let chosen = self.spec.warmup.as_ref().map(|warmup| warmup.value);
        chosen.unwrap_or_else(|| {
            (self.spec.requests.value / 10).max(2 * u64::from(depth.unwrap_or(0)))
        })
    }
}

impl PlannedDrive {
    fn load(word: &Located<String>) -> Result<Self, Failure> {
        let drive = SimDrive::load(&word.value).map_err(|failure| at(&word.place, failure))?;
        let profiles = drive.members().map(serde_json::to_string).collect::<Result<String, _>>();
        let profiles = profiles.context("a profile cannot be written as JSON")?;
        Ok(Self { text: word.value.clone(), fingerprint: fnv(profiles.as_bytes()), drive })
    }
}

/// Policies by their texts, each once by each belief; `all` is every one of the table.
fn policies(
    spec: &[Located<String>],
    beliefs: &[PlannedBelief],
) -> Result<Vec<PlannedPolicy>, Failure> {
    let mut found: Vec<PlannedPolicy> = Vec::new();
    for word in spec {
        let every: Vec<String> = if word.value == "all" {
            POLICIES.iter().map(|entry| entry.name.to_string()).collect()
        } else {
            vec![word.value.clone()]
        };
        for text in every {
            let (entry, parameters) = PolicyEntry::parse(&text)
                .map_err(|error| at(&word.place, Failure::usage(error)))?;
            if found.iter().any(|other| other.policy == text) {
                continue;
            }
            let of = |text: String, belief| PlannedPolicy {
                text,
                policy: String::new(),
                belief,
                entry,
                parameters: parameters.clone(),
            };
            let contestants: Vec<PlannedPolicy> = match beliefs {
                _ if entry.oracle => vec![of(text.clone(), None)],
                [_] => vec![of(text.clone(), Some(0))],
                several => several
                    .iter()
                    .enumerate()
                    .map(|(place, belief)| of(format!("{text} by {}", belief.text), Some(place)))
                    .collect(),
            };
            found.extend(
                contestants
                    .into_iter()
                    .map(|contestant| PlannedPolicy { policy: text.clone(), ..contestant }),
            );
        }
    }
    Ok(found)
}

/// Workloads, each once; two files that are called the same are called by their paths.
fn workloads(
    spec: &CompareSpec,
    deadlines: &DeadlineTable,
) -> Result<Vec<PlannedWorkload>, Failure> {
    let words = once(&spec.workloads);
    let mut traces = spec.traces()?;
    traces.replay.deadline = deadlines.within(IoPriority::DEFAULT);
    let parse = |word: &&Located<String>| {
        WorkloadChoice::parse_with(&word.value, &traces)
            .map(|choice| choice.with_deadlines(deadlines))
            .map_err(|failure| at(&word.place, failure))
    };
    let choices = words.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if let Some((name, option)) = spec.trace_options.first()
        && choices.iter().all(|choice| choice.file().is_some())
    {
        return Err(Failure::Usage(anyhow!(
            "{}: {name} applies to traces, and no workload is one; name a trace among the \
                workloads, or leave it out",
            option.place
        )));
    }
    let names: Vec<String> = choices.iter().map(|choice| choice.name().to_string()).collect();
    let alone = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    let named = choices.into_iter().zip(words).zip(&names);
    Ok(named
        .map(|((choice, word), name)| PlannedWorkload {
            name: if alone(name) { name.clone() } else { word.value.clone() },
            choice,
        })
        .collect())
}

fn baseline(spec: Option<&Located<String>>, policies: &[PlannedPolicy]) -> Result<usize, Failure> {
    let Some(word) = spec else { return Ok(0) };
    let named = |policy: &PlannedPolicy| policy.text == word.value || policy.policy == word.value;
    policies.iter().position(named).ok_or_else(|| {
        let known: Vec<&str> = policies.iter().map(|policy| policy.text.as_str()).collect();
        Failure::Usage(anyhow!(
            "{}: the baseline {} is not among the policies compared, which are {}",
            word.place,
            word.value,
            known.join(", ")
        ))
    })
}

/// The drive model of an oracle.
pub(super) const TRUTH: &str = "truth";

/// Each value once, where it stands first.
fn once<T: PartialEq>(values: &[Located<T>]) -> Vec<&Located<T>> {
    let mut found: Vec<&Located<T>> = Vec::new();
    for placed in values {
        if found.iter().all(|other| other.value != placed.value) {
            found.push(placed);
        }
    }
    found
}

/// A failure with the place of what it is about.
fn at(place: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Usage(error) => Failure::Usage(error.context(place.to_string())),
        other => other,
    }
}

/// Texts in their order, those that are alike once.
fn each_once<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut once = Vec::new();
    for text in texts {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    once
}

#[cfg(test)]
mod tests;
