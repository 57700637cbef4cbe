//! The one table of policies: CLI, configuration, documentation and tests iterate over it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::policies::per_arm::PerArm;
use crate::policies::{self, POLICIES};
use crate::policy::Policy;

/// A parameter of a policy: a number within bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, unit as suffix.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// The default value.
    pub default: f64,
    /// The minimum accepted value.
    pub min: f64,
    /// The maximum accepted value.
    pub max: f64,
    /// True if only whole numbers are accepted.
    pub whole: bool,
    /// The origin of the default: a paper, a measurement, a guess.
    pub origin: &'static str,
}

/// The values of one policy's parameters, complete and within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters(BTreeMap<&'static str, f64>);

/// A table entry.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// The name in configurations and reports.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// The paper and section, or another source.
    pub source: &'static str,
    /// True if it must be given the simulated drive's truth, so that it exists in simulation only.
    pub oracle: bool,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// Builds the policy.
    pub build: fn(&Parameters) -> Box<dyn Policy>,
}

/// The default policy: the best one for a drive shared by volumes with and without deadlines.
pub const DEFAULT_POLICY: &str = policies::headtime::ENTRY.name;

/// The reason why a text is not a valid policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum PolicyError {
    #[error("there is no policy `{name}`; known are {known}")]
    UnknownPolicy { name: String, known: String },
    /// The policy has no such parameter.
    #[error("policy {policy} has no parameter `{parameter}`; it has {known}")]
    UnknownParameter { policy: &'static str, parameter: String, known: String },
    /// A setting without `=`, without a number, outside the bounds, or broken where only whole
    /// numbers make sense.
    #[error(
        "policy {policy}: `{setting}` is no setting; write {parameter}=NUMBER with a {}number from \
            {min} to {max}",
        if *.whole { "whole " } else { "" }
    )]
    BadValue {
        policy: &'static str,
        setting: String,
        parameter: String,
        min: f64,
        max: f64,
        whole: bool,
    },
}

impl Parameter {
    /// Returns whether `value` is within bounds, and whole where it must be.
    #[must_use]
    pub fn accepts(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value) && (!self.whole || libm::trunc(value) == value)
    }
}

/// The policies that order by the deadlines of requests. `auto` may choose one of them.
const BY_DEADLINE: [&str; 6] = ["auto", "cds-scan", "ds-scan", "edf", "g-matrix", "headtime"];
/// The policies that use the times of the latency map.
const BY_PAIRS: [&str; 4] = ["fsatf-map", "fsatf-map-exact", "g-matrix", "satf-map"];

/// The policies that decide for each arm by itself on every drive.
const BY_ARM: [&str; 2] = ["headtime", "sptf-expected"];

impl PolicyEntry {
    /// Returns whether the policy orders by the deadlines of requests.
    #[must_use]
    pub fn orders_by_deadline(&self) -> bool {
        BY_DEADLINE.contains(&self.name)
    }

    /// Returns whether a tunable has an effect under this policy; one that belongs to no policy
    /// always has.
    #[must_use]
    pub fn uses_tunable(&self, tunable: &str) -> bool {
        match tunable {
            "lookahead_k" => self.name == "g-matrix",
            "latency_matrix" => BY_PAIRS.contains(&self.name),
            "deadlines" => self.orders_by_deadline(),
            _ => true,
        }
    }

    /// The policy for an array: it decides for each member by itself, where the drive model knows
    /// the members as arms.
    #[must_use]
    pub fn by_member(&self, parameters: &Parameters) -> Box<dyn Policy> {
        match self.decides_by_arm() {
            true => (self.build)(parameters),
            false => Box::new(PerArm::new(parameters, self.build)),
        }
    }

    /// Returns whether the policy decides for each arm by itself on every drive.
    fn decides_by_arm(&self) -> bool {
        BY_ARM.contains(&self.name)
    }

    /// The entry of the policy called `name`.
    ///
    /// # Errors
    /// [`PolicyError::UnknownPolicy`], which lists the known names.
    pub fn find(name: &str) -> Result<&'static Self, PolicyError> {
        let unknown = || PolicyError::UnknownPolicy {
            name: name.to_string(),
            known: names(POLICIES.iter().map(|entry| entry.name)),
        };
        POLICIES.iter().find(|entry| entry.name == name).ok_or_else(unknown)
    }

    /// A policy from text: `NAME`, or `NAME:parameter=value,parameter=value`.
    ///
    /// # Errors
    /// See [`PolicyError`]; nothing is built unless everything is right.
    pub fn parse(text: &str) -> Result<(&'static Self, Parameters), PolicyError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let entry = Self::find(name)?;
        let mut values: BTreeMap<&'static str, f64> =
            entry.parameters.iter().map(|parameter| (parameter.name, parameter.default)).collect();
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let parameter =
                entry.parameters.iter().find(|parameter| parameter.name == key).ok_or_else(
                    || PolicyError::UnknownParameter {
                        policy: entry.name,
                        parameter: key.to_string(),
                        known: names(entry.parameters.iter().map(|parameter| parameter.name)),
                    },
                )?;
            let number = value.parse().ok().filter(|number| parameter.accepts(*number));
            let number = number.ok_or_else(|| PolicyError::BadValue {
                policy: entry.name,
                setting: setting.to_string(),
                parameter: parameter.name.to_string(),
                min: parameter.min,
                max: parameter.max,
                whole: parameter.whole,
            })?;
            values.insert(parameter.name, number);
        }
        Ok((entry, Parameters(values)))
    }

    /// The policy and its parameters as a text that [`PolicyEntry::parse`] reads: those that are
    /// not at their default.
    #[must_use]
    pub fn text(&self, parameters: &Parameters) -> String {
        let mut text = self.name.to_string();
        let set = self
            .parameters
            .iter()
            .filter(|parameter| parameters.get(parameter.name) != parameter.default);
        for (number, parameter) in set.enumerate() {
            let before = if number == 0 { ':' } else { ',' };
            text.push_str(&format!(
                "{before}{}={}",
                parameter.name,
                parameters.get(parameter.name)
            ));
        }
        text
    }

    /// The policy with every parameter at its default.
    #[must_use]
    pub fn build_default(&self) -> Box<dyn Policy> {
        (self.build)(&Parameters(
            self.parameters.iter().map(|parameter| (parameter.name, parameter.default)).collect(),
        ))
    }
}

impl Parameters {
    /// The value of the parameter called `name`.
    ///
    /// # Panics
    /// When the policy has no such parameter; a policy only reads its own.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        *self
            .0
            .get(name)
            .unwrap_or_else(|| panic!("parameter {name} stands in the policy's own table"))
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_its_own_name_speaks_it_and_keeps_its_defaults_within_bounds() {
        for (index, entry) in POLICIES.iter().enumerate() {
            assert!(
                POLICIES[..index].iter().all(|other| other.name != entry.name),
                "{} stands in the table twice",
                entry.name
            );
            assert_eq!(entry.build_default().name(), entry.name);
            assert!(
                !entry.summary.is_empty() && !entry.source.is_empty(),
                "{} has no summary or source",
                entry.name
            );
            assert_eq!(
                entry.oracle,
                entry.name.ends_with("-oracle"),
                "an oracle carries that word in its name"
            );
            for parameter in entry.parameters {
                assert!(
                    parameter.accepts(parameter.default),
                    "{}: {} is outside its own bounds",
                    entry.name,
                    parameter.name
                );
            }
        }
    }

    #[test]
    fn a_policy_is_built_from_text_with_every_setting_or_none() {
        let (entry, parameters) =
            PolicyEntry::parse("sptf-expected:ageing_power=0,two_from_requests=1")
                .expect("both are its parameters");
        assert_eq!(entry.name, "sptf-expected");
        assert_eq!(
            (parameters.get("ageing_power"), parameters.get("two_from_requests")),
            (0.0, 1.0)
        );
        assert_eq!(
            parameters.get("ageing_horizon_responses"),
            12.0,
            "unset parameters keep their defaults"
        );
        assert_eq!((entry.build)(&parameters).name(), "sptf-expected");
        assert!(PolicyEntry::parse("fcfs").is_ok() && PolicyEntry::parse("fcfs:").is_ok());
        assert_eq!(entry.text(&parameters), "sptf-expected:ageing_power=0,two_from_requests=1");
        let (again, same) =
            PolicyEntry::parse(&entry.text(&parameters)).expect("it is printed as it is read");
        assert_eq!((again.name, same), (entry.name, parameters));
        assert_eq!(
            PolicyEntry::parse("g-matrix")
                .map(|(entry, parameters)| entry.text(&parameters))
                .as_deref(),
            Ok("g-matrix")
        );
    }

    #[test]
    fn what_is_refused_is_named_with_what_would_have_been_accepted() {
        let message = |text: &str| {
            PolicyEntry::parse(text)
                .map(|(entry, _)| entry.name)
                .expect_err("no such setting")
                .to_string()
        };
        let known: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(
            message("elevator"),
            format!("there is no policy `elevator`; known are {}", known.join(", "))
        );
        assert_eq!(message("fcfs:depth=4"), "policy fcfs has no parameter `depth`; it has none");
        for setting in ["depth=0", "depth=65537", "depth=4.5", "depth=NaN", "depth=", "depth"] {
            let expected = "policy firmware: `".to_string()
                + setting
                + "` is no setting; write depth=NUMBER with a whole number from 1 to 65536";
            assert_eq!(message(&("firmware:".to_string() + setting)), expected);
        }
        assert_eq!(
            message("sptf-expected:ageing_power=17"),
            "policy sptf-expected: `ageing_power=17` is no setting; write ageing_power=NUMBER with \
                a number from 0 to 16"
        );
    }
}
