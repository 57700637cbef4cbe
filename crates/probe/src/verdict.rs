//! [`Verdict`]: the conclusion, in one sentence; and [`DriveMonitor`], which notices if the drive
//! is gone or replaced by another one.
//!
//! *Gone*: all commands fail, [`MAX_FAILED`] in a row, all over the drive. *Replaced*: a reference
//! sector, which is read every second or two, has to complete a whole number of revolutions after
//! its last reading. On a drive with another period (or one that was stopped and started) it
//! completes at any angle. By chance, eight of ten readings are off by more than a sixteenth of a
//! revolution once in thirty million. A drive with the same period and another layout is noticed by
//! the self-check.
//!
//! *No rotating drive*: the responses suggest other kinds of device.

use headtime_mechanics::profile::{Accuracy, Reliability};
use serde::{Deserialize, Serialize};

use crate::finding::{Deviation, SelfCheck};
use crate::measurement::TimedCommand;
use crate::numbers::wrap;
use crate::rotation::RotationResult;
use crate::session::DriveTiming;
use crate::stage::Stage;

/// The conclusion of a characterization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// The drive is known, and fresh reads were predicted well.
    Characterized {
        /// The evidence, as a sentence.
        why: String,
    },
    /// There is a profile, but it is not reliable.
    Doubtful {
        /// The evidence against it.
        why: String,
    },
    /// The drive rotates, but its layout was not understood: there is no profile.
    NotUnderstood {
        /// The step that failed.
        why: String,
    },
    /// The drive does not rotate, or something hides the rotation.
    NoRotatingDrive {
        /// Other kinds of device, with the evidence.
        why: String,
    },
    /// The drive stopped answering.
    Gone {
        /// The evidence.
        why: String,
    },
    /// The drive is not the one at the beginning.
    Replaced {
        /// The evidence.
        why: String,
    },
    /// The characterization was not completed.
    Unfinished {
        /// The stage reached.
        why: String,
    },
}

impl Verdict {
    /// True if the profile is reliable.
    #[must_use]
    pub fn is_characterized(&self) -> bool {
        matches!(self, Self::Characterized { .. })
    }

    /// The verdict with its reason.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Characterized { why } => format!("the drive is characterized: {why}"),
            Self::Doubtful { why } => format!("the profile is not reliable: {why}"),
            Self::NotUnderstood { why } => {
                format!("the drive rotates, but its layout was not understood: {why}")
            }
            Self::NoRotatingDrive { why } => format!("this is no rotating drive: {why}"),
            Self::Gone { why } => format!("the drive stopped answering: {why}"),
            Self::Replaced { why } => {
                format!("this is not the same drive as at the beginning: {why}")
            }
            Self::Unfinished { why } => format!("the characterization is not finished: {why}"),
        }
    }
}

/// The reason for ending early.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum EarlyEnd {
    Gone(String),
    Replaced(String),
}

/// Statistics of all commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DriveMonitor {
    failed: u32,
    /// The last completion of each reference sector, ns.
    references: Vec<(u64, f64)>,
    /// The latest readings of reference sectors: true if off.
    off: Vec<bool>,
    /// Counts of responses by eighths of an octave, from 1 ns.
    responses: Vec<u64>,
}

/// The number of failed commands in a row that means that the drive is gone (guess: an unreadable
/// sector is tried six times, with reads elsewhere in between).
const MAX_FAILED: u32 = 32;
/// The number of latest readings of reference sectors, how many of them must be off, and by what
/// part of a revolution.
const READINGS: usize = 10;
const MAX_OFF: usize = 8;
const OFF: f64 = 1.0 / 16.0;
/// No rotating drive answers this quickly all over, ns.
const QUICK_NS: f64 = 1.5e6;
/// Responses are alike if the ratio of their 80 % to their 5 % quantile is below this; those of a
/// platter differ by more.
const ALIKE: f64 = 1.5;
impl DriveMonitor {
    /// Adds a command; returns the reason if the characterization has to end. `drive` is given once
    /// there is a clock.
    pub(crate) fn observe(
        &mut self,
        command: &TimedCommand,
        drive: Option<&DriveTiming>,
    ) -> Option<EarlyEnd> {
        if !command.succeeded() {
            self.failed += 1;
            let why = || {
                format!(
                    "the last {MAX_FAILED} commands failed, in all parts of it; the last was {}",
                    command.extent
                )
            };
            return (self.failed >= MAX_FAILED).then(|| EarlyEnd::Gone(why()));
        }
        self.failed = 0;
        let place = (8.0 * libm::log2(command.response().as_ns().max(1) as f64)) as usize;
        if self.responses.len() <= place {
            self.responses.resize(place + 1, 0);
        }
        self.responses[place] += 1;
        let drive = drive?;
        let lba = command.extent.start.get();
        if !drive.is_reference(lba) || command.extent.len.get() != 1 || drive.may_be_hit(command) {
            return None;
        }
        let at = command.completed.as_ns() as f64;
        let Some(last) = self.references.iter_mut().find(|last| last.0 == lba) else {
            self.references.push((lba, at));
            return None;
        };
        let off = wrap((at - last.1) / drive.clock.period_ns());
        last.1 = at;
        self.off.push(off.abs() > OFF);
        if self.off.len() > READINGS {
            self.off.remove(0);
        }
        let count = self.off.iter().filter(|off| **off).count();
        let why = || {
            let period_us = drive.clock.period_ns() / 1e3;
            format!(
                "{count} of the last {READINGS} readings of the same sectors were no whole \
                    revolutions of {period_us:.3} us apart"
            )
        };
        (count >= MAX_OFF).then(|| EarlyEnd::Replaced(why()))
    }

    /// Starts again after an interruption of the clock.
    pub(crate) fn reset(&mut self) {
        self.failed = 0;
        self.references.clear();
        self.off.clear();
    }

    /// The response below which a share of all responses lies, ns, within a tenth.
    fn response_ns(&self, share: f64) -> f64 {
        let all: u64 = self.responses.iter().sum();
        let needed = share * all as f64;
        let mut seen = 0;
        let place = self.responses.iter().position(|count| {
            seen += count;
            seen as f64 >= needed
        });
        libm::exp2((place.unwrap_or(0) as f64 + 0.5) / 8.0)
    }
}

/// The grounds of a verdict.
pub(crate) struct Evidence<'a> {
    pub(crate) early_end: Option<&'a EarlyEnd>,
    pub(crate) stage: Stage,
    pub(crate) rotation: &'a RotationResult,
    pub(crate) monitor: &'a DriveMonitor,
    /// True if there is a profile, or the reason why the measurements fit no drive.
    pub(crate) profile: Result<bool, &'a str>,
    pub(crate) last_remark: Option<&'a String>,
    pub(crate) check: Option<&'a SelfCheck>,
    /// The reasons why reads of the check were not near.
    pub(crate) deviations: &'a [Deviation],
    /// The deviation of completions, us.
    pub(crate) jitter_us: f64,
}

impl Evidence<'_> {
    pub(crate) fn verdict(&self) -> Verdict {
        let Self { stage, profile, check, .. } = *self;
        let has_profile = profile == Ok(true);
        match self.early_end {
            Some(EarlyEnd::Gone(why)) => return Verdict::Gone { why: why.clone() },
            Some(EarlyEnd::Replaced(why)) => return Verdict::Replaced { why: why.clone() },
            None => {}
        }
        if stage != Stage::Done {
            return Verdict::Unfinished { why: format!("{} is under way", stage.describe()) };
        }
        // A device that always takes the same time looks as if that were its period, until its
        // tracks are looked for. A busy machine makes some of its answers late.
        let all_alike = self.monitor.response_ns(0.8) < ALIKE * self.monitor.response_ns(0.05);
        if !self.rotation.rotates() || (!has_profile && all_alike) {
            return Verdict::NoRotatingDrive { why: self.describe_device() };
        }
        if let Err(why) = profile {
            return Verdict::NotUnderstood { why: format!("the measurements fit no drive: {why}") };
        }
        if !has_profile {
            return Verdict::NotUnderstood {
                why: self.last_remark.cloned().unwrap_or_else(|| "no track was found".into()),
            };
        }
        let check = check.copied().unwrap_or_default();
        let why = format!(
            "of {} fresh 4 KiB reads {:.1} % completed within 50 us of the prediction, {:.1} % \
            within 150 us",
            check.reads,
            100.0 * check.within_50_us,
            100.0 * check.within_150_us
        );
        match check.accuracy().reliability(self.jitter_us) {
            Reliability::Unchecked => Verdict::Doubtful {
                why: "it was not checked against fresh reads; give it more time".into(),
            },
            Reliability::Good => Verdict::Characterized { why },
            Reliability::Incomplete => Verdict::Characterized {
                why: format!(
                    "{why}, less than {:.1} % within 50 us, which completions as steady as these \
                        allow: {}",
                    100.0 * Accuracy::expected_near(),
                    self.describe_deviations()
                ),
            },
            Reliability::Poor => Verdict::Doubtful {
                why: format!(
                    "{why}; expected {:.0} % or more within 150 us",
                    100.0 * Accuracy::expected()
                ),
            },
            Reliability::Wrong => Verdict::Doubtful {
                why: format!(
                    "{why}: it may be another drive by now, or one with an unknown kind of layout; \
                    serve it in address order"
                ),
            },
        }
    }

    /// The reasons why reads of the check were not near, with their shares.
    fn describe_deviations(&self) -> String {
        let reasons = self
            .deviations
            .iter()
            .map(|deviation| format!("{:.1} % {}", 100.0 * deviation.share, deviation.reason));
        reasons.collect::<Vec<_>>().join("; ")
    }

    /// Describes what a device that does not rotate may be.
    fn describe_device(&self) -> String {
        let us = |share: f64| self.monitor.response_ns(share) / 1e3;
        let (low, middle, high) = (us(0.05), us(0.5), us(0.95));
        if self.monitor.responses.is_empty() {
            return self.rotation.evidence.clone();
        }
        let evidence = &self.rotation.evidence;
        let description = if high * 1e3 < QUICK_NS {
            format!(
                "nine tenths of all reads take {low:.0} to {high:.0} us for any address, like \
                    flash, memory, or a file in the page cache"
            )
        } else if us(0.8) < ALIKE * low {
            format!(
                "all reads take about {middle:.0} us for any address, like a device on a network \
                    or under a speed limit"
            )
        } else {
            format!(
                "reads take {low:.0} to {high:.0} us, but at no period: a network, an array, or \
                    other work on the device may lie in between"
            )
        };
        if evidence.is_empty() { description } else { format!("{description} ({evidence})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::measurement::CommandOutcome;
    use headtime_units::{Extent, Instant, Nanos};

    fn command(lba: u64, at_ns: u64, outcome: CommandOutcome) -> TimedCommand {
        let completed = Instant::from_ns(at_ns);
        TimedCommand {
            extent: Extent::from_numbers(lba, 1),
            issued: completed.saturating_back(Nanos::from_ms(4)),
            completed,
            outcome,
            others: 0,
        }
    }

    #[test]
    fn a_drive_is_gone_when_everything_fails_and_not_when_some_of_it_does() {
        let mut watch = DriveMonitor::default();
        for number in 0..1_000 {
            let outcome =
                if number % 20 == 0 { CommandOutcome::Done } else { CommandOutcome::Failed };
            assert_eq!(watch.observe(&command(number, number * 5_000_000, outcome), None), None);
        }
        let ended = (0..u64::from(MAX_FAILED)).find_map(|number| {
            watch.observe(&command(number, number, CommandOutcome::Failed), None)
        });
        assert!(matches!(ended, Some(EarlyEnd::Gone(_))));
    }

    #[test]
    fn another_period_is_noticed_within_some_readings_and_noise_is_none() {
        let drive = DriveTiming {
            references: vec![crate::session::ReferenceSector { lba: 7, turns: 0.0 }],
            clock: Clock::new(6e6, 20_000.0, Instant::ORIGIN),
            ..DriveTiming::default()
        };
        let mut watch = DriveMonitor::default();
        for turn in 1..200_u64 {
            let noise = turn * 7_919 % 150_000 + if turn % 9 == 0 { 2_000_000 } else { 0 };
            assert_eq!(
                watch.observe(
                    &command(7, turn * 250 * 6_000_000 + noise, CommandOutcome::Done),
                    Some(&drive)
                ),
                None
            );
        }
        let after = 200 * 250 * 6_000_000;
        let mut readings = (1..40_u64)
            .map(|turn| command(7, after + turn * 250 * 6_012_345, CommandOutcome::Done));
        assert!(readings.any(|command| matches!(
            watch.observe(&command, Some(&drive)),
            Some(EarlyEnd::Replaced(_))
        )));
    }

    #[test]
    fn a_drive_of_which_noise_does_not_explain_the_errors_says_what_does() {
        let mut rotation = RotationResult::default();
        rotation.rotates = Some(true);
        let monitor = DriveMonitor { responses: vec![1; 200], ..DriveMonitor::default() };
        let check = SelfCheck {
            reads: 2_000,
            within_50_us: 0.96,
            within_150_us: 0.961,
            ..SelfCheck::default()
        };
        let deviations = [Deviation { reason: "no known pattern of tracks".into(), share: 0.04 }];
        let sentence = |jitter_us: f64| {
            let verdict = Evidence {
                early_end: None,
                stage: Stage::Done,
                rotation: &rotation,
                monitor: &monitor,
                profile: Ok(true),
                last_remark: None,
                check: Some(&check),
                deviations: &deviations,
                jitter_us,
            }
            .verdict();
            assert!(verdict.is_characterized());
            verdict.sentence()
        };
        assert!(sentence(3.0).ends_with("allow: 4.0 % no known pattern of tracks"));
        assert!(!sentence(25.0).contains("allow"));
    }

    #[test]
    fn responses_say_what_does_not_turn() {
        let mut watch = DriveMonitor::default();
        let rotation = RotationResult::default();
        for number in 0..100_u64 {
            let completed = Instant::from_ns(1_000_000_000 + number * 100_000);
            let issued = completed.saturating_back(Nanos::from_us(80 + number % 7));
            watch.observe(
                &TimedCommand {
                    extent: Extent::from_numbers(number, 1),
                    issued,
                    completed,
                    outcome: CommandOutcome::Done,
                    others: 0,
                },
                None,
            );
        }
        let verdict = Evidence {
            early_end: None,
            stage: Stage::Done,
            rotation: &rotation,
            monitor: &watch,
            profile: Ok(false),
            last_remark: None,
            check: None,
            deviations: &[],
            jitter_us: 0.0,
        }
        .verdict();
        assert!(verdict.sentence().contains("flash"), "{}", verdict.sentence());
        assert!((watch.response_ns(0.5) / 83_000.0 - 1.0).abs() < 0.1);
    }
}
